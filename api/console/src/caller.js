// What the caller's token may do. Until that is known, the console offers no changes.
import {createContext} from 'preact';
import {useContext} from 'preact/hooks';

export const Caller = createContext({scopes: [], topics: []});

export function useCaller() {
  return useContext(Caller);
}

// may('write'), may('admin', everywhere = true): of all topics together
export function useMay() {
  const {scopes, topics} = useCaller();
  return (scope, everywhere = false) => scopes.includes(scope) && !(everywhere && topics);
}
