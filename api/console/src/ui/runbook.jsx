// A page of the runbook, which the API serves beside the console. The pages are Markdown with headings, paragraphs, lists, blocks of code,
// links, code and emphasis; anything else is shown as it is written.
import {useEffect, useState} from 'preact/hooks';
import {href} from '../router.js';
import {Copy, Panel} from './parts.jsx';

const SPANS = /`([^`]+)`|\[([^\]]+)\]\(([^)]+)\)|\*\*([^*]+)\*\*|\*([^*]+)\*/g;

// A link to another page of the runbook opens that page; the console cannot open a link to any other file of the sources.
function Link({text, to}) {
  const page = /([\w-]+)\.md$/.exec(to)?.[1];
  return page && page !== 'README' ? <a href={href(['runbook', page])}>{text}</a> : text;
}

function Line({text}) {
  const parts = [];
  let end = 0;
  for (const {0: written, 1: code, 2: link, 3: to, 4: strong, 5: weak, index} of text.matchAll(SPANS)) {
    parts.push(text.slice(end, index), code ? <code>{code}</code> : link ? <Link text={link} to={to} /> : strong ? <strong>{strong}</strong> : <em>{weak}</em>);
    end = index + written.length;
  }
  return <>{parts}{text.slice(end)}</>;
}

// [{kind: 'heading' | 'text' | 'item' | 'code', text}]
export function blocksOf(markdown) {
  const blocks = [];
  let code = null;
  for (const line of markdown.split('\n')) {
    const kind = line.startsWith('#') ? 'heading' : line.startsWith('- ') ? 'item' : 'text';
    if (line.startsWith('```')) {
      code = code ? null : {kind: 'code', lines: []};
      if (code) blocks.push(code);
    } else if (code) code.lines.push(line);
    else if (line.trim() && kind === 'text' && blocks.at(-1)?.open) blocks.at(-1).lines.push(line.trim());
    else if (line.trim()) blocks.push({kind, lines: [line.replace(/^(#+|-) /, '')], open: kind !== 'heading'});
    else if (blocks.length) blocks.at(-1).open = false;
  }
  return blocks.map(({kind, lines}) => ({kind, text: lines.join(kind === 'code' ? '\n' : ' ')}));
}

function Block({block: {kind, text}}) {
  if (kind === 'code') return <div class="code"><pre tabIndex={0} role="region" aria-label={`Commands: ${text.slice(0, 60)}`}>{text}</pre><Copy text={text} /></div>;
  if (kind === 'heading') return <h3><Line text={text} /></h3>;
  return <p class={kind}><Line text={text} /></p>;
}

async function fetchPage(name, set) {
  try {
    const answer = await fetch(`${encodeURIComponent(name)}.md`);
    set({name, blocks: answer.ok ? blocksOf(await answer.text()).slice(1) : null});
  } catch {
    set({name, blocks: null});
  }
}

export function Runbook({name}) {
  const [page, set] = useState({});
  useEffect(() => void fetchPage(name, set), [name]);
  if (page.name !== name) return <p class="quiet" role="status">Loading…</p>;
  return (
    <Panel title={`Runbook: ${name}`}>
      <div class="runbook">
        {page.blocks ? page.blocks.map((block, at) => <Block key={at} block={block} />) : <p>This API does not serve the page. It is in the sources, in <code>deploy/runbook</code>.</p>}
      </div>
    </Panel>
  );
}
