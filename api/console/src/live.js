// What a page shows, asked for again and again: one request at a time, none while the tab is hidden, slower while the API is away.
// What was read stays on the page when it cannot be read anew.
import {useEffect, useState} from 'preact/hooks';
import {get, session} from './api.js';

const AWAY_MS = 5000;

export function useSession() {
  const [now, set] = useState(session.get);
  useEffect(() => session.subscribe(set), []);
  return now;
}

function keepAsking(path, every, set) {
  const aborted = new AbortController();
  let timer = null;
  let busy = false;
  const again = (ms) => {
    clearTimeout(timer);
    if (!aborted.signal.aborted && ms) timer = setTimeout(look, ms);
  };
  async function look() {
    if (busy || document.hidden) return;
    busy = true;
    try {
      const data = await get(path, {signal: aborted.signal, accept: [503].filter(() => path === '/readyz')});
      set({path, data, problem: null, at: Date.now()});
      again(every);
    } catch (problem) {
      if (aborted.signal.aborted) return;
      set((before) => ({...(before.path === path ? before : {path}), problem}));
      again(problem.status === 401 || problem.status === 403 || problem.status === 404 ? 0 : Math.max(every, AWAY_MS));
    } finally {
      busy = false;
    }
  }
  const seen = () => !document.hidden && look();
  document.addEventListener('visibilitychange', seen);
  look();
  return {
    refresh: look,
    end() {
      aborted.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    },
  };
}

// {data, problem, at, refresh}. path null: nothing is asked. every 0: once.
export function useLive(path, every = 3000) {
  const [shown, set] = useState({path: null});
  const [refresh, setRefresh] = useState(() => () => {});
  const {token} = useSession();
  useEffect(() => {
    if (!path) return undefined;
    const asking = keepAsking(path, every, set);
    setRefresh(() => asking.refresh);
    return asking.end;
  }, [path, every, token]);
  const own = shown.path === path ? shown : {};
  return {data: own.data, problem: own.problem, at: own.at, refresh};
}
