import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import {App} from './app.jsx';

const root = document.getElementById('console');
root.textContent = '';
render(<App />, root);
