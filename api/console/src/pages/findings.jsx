// The findings of the API's doctor: what is wrong, what it means, what to do. Shows nothing if the token may not read them.
import {useLive} from '../live.js';
import {Panel} from '../ui/parts.jsx';

const TONES = {error: 'bad', warning: 'warn', note: ''};

// The findings that a cause explains, by kind.
function Consequences({of}) {
  const kinds = [...new Set(of.map(({finding}) => finding))];
  return kinds.map((kind) => <div key={kind} class="quiet">therefore {kind}: {of.filter(({finding}) => finding === kind).map(({subject}) => subject).join(', ')}</div>);
}

export function Findings() {
  const {data} = useLive('/v1/doctor', 30000);
  if (!data?.findings.length) return null;
  return (
    <Panel title="What is wrong">
      <ul class="findings">
        {data.findings.map((finding, at) => !finding.cause && (
          <li key={`${finding.finding} ${finding.subject}`} class={`reason ${TONES[finding.severity]}`}>
            <span class="quiet">{finding.severity} </span><strong>{finding.subject}</strong>: {finding.detail}
            <div>{finding.means} <strong>{finding.do}</strong></div>
            {data.findings[at + 1]?.cause === finding.finding && <Consequences of={data.findings.filter(({cause}) => cause === finding.finding)} />}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
