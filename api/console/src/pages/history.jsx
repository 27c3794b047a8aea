// The throughput of the last hour as a chart. Shows nothing if the API has no figures.
import {withQuery} from '../api.js';
import {useLive} from '../live.js';
import {Chart} from '../ui/chart.jsx';
import {Panel} from '../ui/parts.jsx';

const LINES = [['created', '--quiet'], ['dispatched', '--chart'], ['succeeded', '--chart-2'], ['failed', '--chart-4'], ['dead', '--chart-3']];
const rate = (n) => (n >= 10 || n === 0 ? String(Math.round(n)) : n.toFixed(1));

export const secondsOf = (series) => {
  const from = new Date(series.from) / 1000;
  const first = Object.values(series.metrics)[0] || [];
  return first.map((_, i) => from + (i * series.step_ms) / 1000);
};

export function History({topic}) {
  const {data} = useLive(withQuery('/v1/series', {topic, metric: LINES.map(([name]) => name).join(), step: 'PT30S'}), 5000);
  if (!data) return null;
  const last = (name) => rate(data.metrics[name]?.at(-1) ?? 0);
  return (
    <Panel title="Throughput in the last hour (jobs/s)">
      <Chart times={secondsOf(data)} format={rate} lines={LINES.map(([name, colour]) => ({name, colour, values: data.metrics[name] || []}))}
        label={`Jobs per second in the last hour; latest: ${LINES.map(([name]) => `${last(name)} ${name}`).join(', ')}`} />
    </Panel>
  );
}
