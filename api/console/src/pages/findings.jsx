// The findings of the API's doctor: what is wrong, what it means, what to do. A finding that another one causes is folded below its cause.
// Shows nothing if the token may not read them.
import {useState} from 'preact/hooks';
import {get} from '../api.js';
import {useMay} from '../caller.js';
import {plural} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {say} from '../ui/dialog.jsx';
import {Copy, Panel} from '../ui/parts.jsx';
import {Runbook} from '../ui/runbook.jsx';
import {advice, stepsOf} from '../words.js';
import {pause} from './topic.jsx';

const TONES = {error: 'bad', warning: 'warn', note: ''};
const RANK = {error: 0, warning: 1, note: 2};
const JOBS = {overdue: 'Late jobs', 'not-popped': 'Late jobs', 'paused-and-due': 'Held jobs'};

// What a finding asks for. A command can be copied; everything else is a sentence.
function Steps({text}) {
  return stepsOf(text).map(({command, rest}) => (command
    ? <span key={command} class="step"><code>{command}</code><Copy text={command} /><span class="quiet">{rest}</span></span>
    : <span key={rest} class="step"><strong>{advice(rest)}</strong></span>));
}

// Asks with the number of jobs that are concerned, so it reads the topic first.
async function askToPause(name, done) {
  try {
    pause(await get(`/v1/topics/${encodeURIComponent(name)}`), done);
  } catch (problem) {
    say(`The topic cannot be read: ${problem.lines.join(' · ')}`);
  }
}

// What can be done from here: buttons for changes, links to the jobs that the finding is about.
function Actions({finding: {finding, subject, runbook}, opened, open, done}) {
  const may = useMay()('admin');
  const page = /([\w-]+)\.md$/.exec(runbook)?.[1];
  const resumes = finding === 'paused-and-due';
  return (
    <div class="actions">
      {JOBS[finding] && <a class="button" href={href('jobs', {topic: subject, state: 'scheduled', due_to: 'now'})}>{JOBS[finding]}</a>}
      {JOBS[finding] && may && <button type="button" class={resumes ? 'primary' : ''} onClick={() => askToPause(subject, done)}>{resumes ? 'Resume' : 'Pause'} {subject}</button>}
      {finding === 'inbox-errors' && <a class="button" href={href('alerts')}>Alerts</a>}
      {page && <button type="button" aria-expanded={opened === page} onClick={() => open(opened === page ? null : page)}>{opened === page ? 'Close runbook' : 'Open runbook'}</button>}
    </div>
  );
}

function Consequences({of}) {
  if (!of.length) return null;
  return (
    <details class="consequences">
      <summary>{plural(of.length, 'consequence')}</summary>
      <ul>{of.map(({finding, subject, detail}) => <li key={`${finding} ${subject}`}><strong>{subject}</strong>: {detail} <span class="quiet">({finding})</span></li>)}</ul>
    </details>
  );
}

function Finding({finding, consequences, done}) {
  const [opened, open] = useState(null);
  return (
    <li class={`reason ${TONES[finding.severity]}`}>
      <div class="finding">
        <div>
          <div><span class={`severity ${finding.severity}`}>{finding.severity}</span> <strong>{finding.subject}</strong>: {finding.detail}. {finding.means}</div>
          <Steps text={finding.do} />
        </div>
        <Actions finding={finding} opened={opened} open={open} done={done} />
      </div>
      <Consequences of={consequences} />
      {opened && <Runbook name={opened} />}
    </li>
  );
}

export function Findings() {
  const {data, refresh} = useLive('/v1/doctor', 10000);
  if (!data?.findings.length) return null;
  const causes = data.findings.filter(({cause}) => !cause).sort((a, b) => RANK[a.severity] - RANK[b.severity]);
  const first = (kind) => causes.find(({finding}) => finding === kind);
  return (
    <Panel title="What is wrong">
      <ul class="findings">
        {causes.map((finding) => (
          <Finding key={`${finding.finding} ${finding.subject}`} finding={finding} done={refresh}
            consequences={first(finding.finding) === finding ? data.findings.filter(({cause}) => cause === finding.finding) : []} />
        ))}
      </ul>
    </Panel>
  );
}
