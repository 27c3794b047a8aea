// Whether this API has an optional feature: a page is not shown if the API does not know its request.
import {useLive} from './live.js';

const UNKNOWN = 'there is nothing at this path';

// null: not known yet
export function useOffered(path) {
  const {data, problem} = useLive(path, 0);
  if (!data && !problem) return null;
  return !(problem?.status === 404 && problem.message === UNKNOWN);
}
