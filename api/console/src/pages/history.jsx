// The throughput of the last hour, six hours or day as a chart. Shows nothing if the API has no figures.
import {withQuery} from '../api.js';
import {useLive} from '../live.js';
import {Chart} from '../ui/chart.jsx';
import {Panel, useNow} from '../ui/parts.jsx';

const LINES = [['created', '--quiet'], ['dispatched', '--chart'], ['succeeded', '--chart-2'], ['failed', '--chart-4'], ['dead', '--chart-3']];
const rate = (n) => (n >= 10 || n === 0 ? String(Math.round(n)) : n.toFixed(1));

export const SPANS = {'1h': {name: 'hour', step: 'PT30S'}, '6h': {name: '6 hours', step: 'PT5M', ms: 6 * 3600000}, '24h': {name: 'day', step: 'PT5M', ms: 24 * 3600000}};

export const secondsOf = (series) => {
  const from = new Date(series.from) / 1000;
  const first = Object.values(series.metrics)[0] || [];
  return first.map((_, i) => from + (i * series.step_ms) / 1000);
};

// The metrics of the span that ends now.
export function useSeries(metrics, span, topic) {
  const {ms, step} = SPANS[span];
  const now = useNow(30000);
  return useLive(withQuery('/v1/series', {topic, metric: metrics.join(), step, from: ms && new Date(now - ms).toISOString()}), 5000, {key: `${topic} ${metrics} ${span}`}).data;
}

export function History({topic, span = '1h'}) {
  const data = useSeries(LINES.map(([name]) => name), span, topic);
  if (!data) return null;
  const last = (name) => rate(data.metrics[name]?.at(-1) ?? 0);
  const words = `in the last ${SPANS[span].name}`;
  return (
    <Panel title={`Throughput ${words} (jobs/s)`}>
      <Chart times={secondsOf(data)} format={rate} lines={LINES.map(([name, colour]) => ({name, colour, values: data.metrics[name] || []}))}
        label={`Jobs per second ${words}; latest: ${LINES.map(([name]) => `${last(name)} ${name}`).join(', ')}`} />
    </Panel>
  );
}
