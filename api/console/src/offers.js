// What this API offers beyond what every API does: a page whose request it does not know is not shown.
import {useLive} from './live.js';

const UNKNOWN = 'there is nothing at this path';

// null: not known yet
export function useOffered(path) {
  const {data, problem} = useLive(path, 0);
  if (!data && !problem) return null;
  return !(problem?.status === 404 && problem.message === UNKNOWN);
}
