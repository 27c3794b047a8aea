// The frame around every page: navigation, servers that are down, signing in; and which page a URL opens.
import {useEffect, useState} from 'preact/hooks';
import {get, session} from './api.js';
import {Caller} from './caller.js';
import {relative} from './format.js';
import {Keys} from './keys.jsx';
import {useLive, useSession} from './live.js';
import {useOffered} from './offers.js';
import {Alerts} from './pages/alerts.jsx';
import {Dead} from './pages/dead.jsx';
import {Events} from './pages/events.jsx';
import {Job} from './pages/job.jsx';
import {Jobs} from './pages/jobs.jsx';
import {Operation, Operations} from './pages/operations.jsx';
import {Overview} from './pages/overview.jsx';
import {RunbookPage} from './pages/runbook_page.jsx';
import {Schedule} from './pages/schedule.jsx';
import {Schedules} from './pages/schedules.jsx';
import {Topic} from './pages/topic.jsx';
import {Topics} from './pages/topics.jsx';
import {href, useRoute} from './router.js';
import {Dialogs, question} from './ui/dialog.jsx';
import {Title, copyExactTimes, useNow} from './ui/parts.jsx';
import {LOCAL, chooseZone, isZone, useZone, zoneLabel} from './zone.js';

const PAGES = {
  overview: {name: 'Overview', list: Overview},
  jobs: {name: 'Jobs', list: Jobs, one: Job},
  topics: {name: 'Topics', list: Topics, one: Topic},
  schedules: {name: 'Schedules', list: Schedules, one: Schedule},
  dead: {name: 'Dead letters', list: Dead},
  operations: {name: 'Operations', list: Operations, one: Operation},
  alerts: {name: 'Alerts', list: Alerts},
  events: {name: 'Audit log', list: Events},
  runbook: {name: 'Runbook', one: RunbookPage},
};

function Nav({at, pages, alerts}) {
  return (
    <nav aria-label="Pages" class="main">
      {pages.map((path) => (
        <a key={path} href={href(path)} aria-current={path === at ? 'page' : undefined}>{PAGES[path].name}{path === 'alerts' && alerts > 0 && <span class="badge">{alerts}</span>}</a>
      ))}
    </nav>
  );
}

// "17" opens the job with this id, "orders.close order-42" the job with this key; a single word lists the jobs of that topic.
async function find(text) {
  const [first, ...rest] = text.trim().split(/\s+/);
  if (!first) return null;
  if (!rest.length && /^\d+$/.test(first)) return href(['jobs', first]);
  if (!rest.length) return href('jobs', {topic: first});
  const key = text.trim().slice(first.length).trim();
  const job = await get(`/v1/topics/${encodeURIComponent(first)}/jobs/${encodeURIComponent(key)}`);
  return href(['jobs', job.id]);
}

function Search() {
  const [problem, setProblem] = useState(null);
  async function search(event) {
    event.preventDefault();
    setProblem(null);
    try {
      const found = await find(event.target.elements.words.value);
      if (!found) return;
      event.target.reset();
      location.hash = found;
    } catch (error) {
      setProblem(error.status === 404 ? 'no such job' : error.message);
    }
  }
  return (
    <search><form class="search" onSubmit={search}>
      <input name="words" aria-label="Find a job: its id, or its topic and key" placeholder="Job id, or topic and key" autocomplete="off" spellcheck={false} />
      {problem && <span class="problem" role="alert">{problem}</span>}
    </form></search>
  );
}

function askZone() {
  question({
    title: 'Show times in a zone', yes: 'Save',
    fields: [{name: 'zone', label: 'Time zone', placeholder: 'Europe/Berlin', required: true, autofocus: true}],
    act: async ({zone}) => {
      if (!isZone(zone.trim())) throw new Error('There is no such zone. Write a name such as Europe/Berlin.');
      chooseZone(zone.trim());
    },
  });
}

// Which zone the times of all pages have.
function Zone() {
  const chosen = useZone();
  const names = {UTC: 'UTC', local: `Local (${LOCAL}, ${zoneLabel(Date.now(), LOCAL)})`, ...(chosen !== 'UTC' && chosen !== 'local' && {[chosen]: chosen})};
  return (
    <select class="zone" aria-label="Zone of all times" value={chosen} onChange={({target}) => (target.value === 'other' ? askZone() : chooseZone(target.value))}>
      {Object.entries(names).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
      <option value="other">Other zone…</option>
    </select>
  );
}

const WORDS = {
  mysql: 'MySQL', redis: 'Redis', kafka: 'Kafka', leaders: 'leaders of shards',
};

const READINESS = {accept: [503]};

// The names of the parts that have problems.
function Parts({downSince}) {
  const {data} = useLive('/readyz', 3000, READINESS);
  const now = useNow();
  if (downSince) return <p class="parts bad" role="alert"><strong>The API does not answer</strong> (since {relative(downSince, now)}). This page shows older data.</p>;
  if (!data) return null;
  const bad = Object.entries(WORDS).filter(([part]) => !['ok', 'none', undefined].includes(data[part]));
  if (!bad.length) return null;
  return (
    <p class={`parts ${data.status === 'unready' ? 'bad' : 'warn'}`} role="alert">
      <strong>{data.status === 'unready' ? 'Not ready' : 'Degraded'}:</strong> {bad.map(([part, name]) => `${name} (${data[part]})`).join(', ')}
    </p>
  );
}

function SignIn({refused}) {
  function signIn(event) {
    event.preventDefault();
    session.signIn(event.target.elements.token.value.trim());
  }
  return (
    <main class="sign-in">
      <h1>duetime</h1>
      <form onSubmit={signIn}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" required autofocus autocomplete="off" spellcheck={false} />
        {refused && <p class="note bad" role="alert">This token is unknown.</p>}
        <button type="submit" class="primary">Sign in</button>
        <p class="quiet">This tab keeps the token until you close it. <code>duetime-api --new-token</code> creates a token.</p>
      </form>
    </main>
  );
}

function NotFound() {
  return <><Title>Page not found</Title><p>There is no such page. <a href={href([])}>Go to the first page</a></p></>;
}

function Page({route}) {
  const [name, ...rest] = route.path;
  const page = PAGES[name];
  useEffect(() => {
    document.title = `${rest[0] || page?.name || 'duetime'} · duetime`;
    scrollTo(0, 0);
  }, [location.hash.split('?')[0]]);
  if (!page) return <NotFound />;
  const Shown = rest.length ? page.one : page.list;
  return Shown ? <Shown key={route.path.join('/')} id={rest.join('/')} query={route.query} /> : <NotFound />;
}

// The number of active alerts, a hundred at most; null: this API has no alerts.
function useAlerts() {
  const offered = useOffered('/v1/alerts');
  const {data} = useLive(offered === false ? null : '/v1/alerts', 5000);
  return offered ? (data?.alerts.length ?? 0) : null;
}

const FIRST = {path: ['overview'], query: {}}; // until it is known whether the API has an overview

// A colour for each installation, so that two tabs are told apart; none is red, which means trouble.
const hueOf = (name) => 40 + ([...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9973, 7) % 280);

function Frame() {
  const route = useRoute();
  const {downSince, token} = useSession();
  const caller = useLive('/v1/caller', 30000).data;
  const overview = useOffered('/v1/overview');
  const alerts = useAlerts();
  const installation = useLive('/v1/info', 0).data?.installation.name;
  const offered = {overview, alerts: alerts !== null, events: useOffered('/v1/events?limit=1')};
  const pages = Object.keys(PAGES).filter((name) => PAGES[name].list && (offered[name] ?? true));
  const shown = route.path.length ? route : overview !== false && FIRST;
  useEffect(() => {
    if (!route.path.length && overview !== null) location.replace(href(overview ? 'overview' : 'jobs'));
  }, [route.path.length, overview]);
  return (
    <Caller.Provider value={caller || {scopes: [], topics: []}}>
      <button type="button" class="skip" onClick={() => document.querySelector('h1')?.focus()}>Skip to the content</button>
      <header class="top" ref={(bar) => installation && bar?.style.setProperty('--environment', `hsl(${hueOf(installation)} 65% 45%)`)}>
        <a class="brand" href={href([])}><span class="mark" aria-hidden="true">◷</span> duetime{installation && installation !== 'duetime' && <span class="environment">{installation}</span>}</a>
        <Nav at={shown?.path[0]} pages={pages} alerts={alerts} />
        <Search />
        <Zone />
        {token && <button type="button" class="plain" onClick={() => session.signOut()}>Sign out</button>}
      </header>
      <Parts downSince={downSince} />
      <main id="content">{shown && <Page route={shown} />}</main>
      <Keys pages={pages} />
    </Caller.Provider>
  );
}

export function App() {
  const {wanted, token} = useSession();
  const zone = useZone();
  useEffect(() => {
    addEventListener('copy', copyExactTimes);
    return () => removeEventListener('copy', copyExactTimes);
  }, []);
  return <>{wanted ? <SignIn refused={!!token} /> : <Frame key={zone} />}<Dialogs /></>;
}
