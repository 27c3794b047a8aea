// What is wrong, what it means and what to do, as the API's doctor finds it; nothing where it is not offered to this token.
import {useLive} from '../live.js';
import {Panel} from '../ui/parts.jsx';

const TONES = {error: 'bad', warning: 'warn', note: ''};

export function Findings() {
  const {data} = useLive('/v1/doctor', 30000);
  if (!data?.findings.length) return null;
  return (
    <Panel title="What is wrong">
      <ul class="findings">
        {data.findings.map((finding) => (
          <li key={`${finding.finding} ${finding.subject}`} class={`reason ${TONES[finding.severity]}`}>
            <strong>{finding.subject}</strong>: {finding.detail}
            <div>{finding.means} <strong>{finding.do.replaceAll('TOPIC', finding.subject)}</strong></div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
