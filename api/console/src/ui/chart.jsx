// A chart over time by uPlot, in the colours of the page, light and dark. Its label describes it for screen readers.
import {useEffect, useRef} from 'preact/hooks';
import uPlot from 'uplot';
import {moment} from '../format.js';
import {zoneLabel} from '../zone.js';

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const DARK = matchMedia('(prefers-color-scheme: dark)');

function axis(values) {
  return {stroke: colour('--quiet'), grid: {stroke: colour('--line'), width: 1}, ticks: {stroke: colour('--line'), width: 1}, font: '11px system-ui, sans-serif', ...values};
}

const clock = (_, seconds) => seconds.map((s) => moment(s * 1000).slice(11, 16));

// While the pointer is elsewhere, the legend shows the latest values.
function showLast(plot) {
  if (plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0) plot.setLegend({idx: plot.data[0].length - 1}, false);
}

function options(width, height, lines, {bars, format, tick}) {
  return {
    width, height, cursor: {y: false, drag: {x: true, y: false}}, legend: {live: true}, hooks: {setCursor: [showLast], setData: [showLast], setSelect: [(plot) => { plot.narrowed = plot.select.width > 0; }]},
    scales: {x: {time: false}, y: {range: (_u, _low, high) => [0, Math.max(high || 0, 1) * 1.05]}},
    axes: [axis({values: clock, space: 60, size: 26, incrs: [60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400]}), axis({values: (_, ticks) => ticks.map(tick), size: 56, space: 34})],
    series: [
      {label: zoneLabel(), value: (_, s) => (s === null ? '–' : moment(s * 1000).slice(11, 19))},
      ...lines.map((line) => ({
        label: line.name, stroke: colour(line.colour), width: 1.5, points: {show: false}, value: (_, v) => (v === null || v === undefined ? '–' : format(v)),
        ...(bars ? {fill: colour(line.colour), paths: uPlot.paths.bars({size: [0.8, 40]})} : {}),
      })),
    ],
  };
}

// Dragging narrows the chart to the part that is dragged over, and a double click ends that.
// times: seconds; lines: [{name, colour: '--chart', values}]
export function Chart({times, lines, label, height = 120, bars = false, format = String, tick = format}) {
  const box = useRef();
  const data = [times, ...lines.map((line) => line.values)];
  const plot = useRef();
  useEffect(() => {
    const host = box.current; // a new size may be reported after the chart has left the page
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(host.clientWidth, height, lines, {bars, format, tick}), data, host);
    };
    make();
    const resized = new ResizeObserver(() => host.isConnected && plot.current?.setSize({width: host.clientWidth, height}));
    resized.observe(host);
    DARK.addEventListener('change', make);
    return () => {
      resized.disconnect();
      DARK.removeEventListener('change', make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [lines.map((line) => line.name).join()]);
  useEffect(() => plot.current?.setData(data, !plot.current.narrowed), [JSON.stringify(data)]);
  return <div class="chart" ref={box} role="img" aria-label={label} title="Drag to narrow, double-click for all" onDblClick={() => { plot.current.narrowed = false; }} />;
}
