// Every view has a URL, the part after "#". "#/jobs/17" has the path ["jobs", "17"], "#/jobs?state=dead" the query {state: "dead"}.
import {useEffect, useState} from 'preact/hooks';
import {withQuery} from './api.js';

export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  return {path: path.split('/').filter(Boolean).map(decodeURIComponent), query: Object.fromEntries(new URLSearchParams(query))};
}

// href('jobs', 17) or href(['jobs'], {state: 'dead'})
export function href(path, query = {}) {
  const parts = (Array.isArray(path) ? path : [path]).map((part) => encodeURIComponent(part));
  return withQuery(`#/${parts.join('/')}`, query);
}

export function go(path, query) {
  location.hash = href(path, query);
}

function readable(hash) {
  try {
    return parse(hash);
  } catch {
    return {path: ['a broken link'], query: {}};
  }
}

export function useRoute() {
  const [route, set] = useState(() => readable(location.hash));
  useEffect(() => {
    const changed = () => set(readable(location.hash));
    addEventListener('hashchange', changed);
    changed(); // the URL may have changed before the listener was added
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}
