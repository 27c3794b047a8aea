// The time zone in which the console shows and reads times: UTC (as in logs, SQL and the command line), the browser's, or any other. The
// choice is kept in the browser.
import {useEffect, useState} from 'preact/hooks';

const KEY = 'duetime.zone';
const listeners = new Set();
const formats = new Map();
let chosen = localStorage.getItem(KEY) || 'UTC';

export const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const isZone = (name) => {
  try {
    return !!Intl.DateTimeFormat('en', {timeZone: name});
  } catch {
    return false;
  }
};

export const zone = () => (chosen === 'local' ? LOCAL : isZone(chosen) ? chosen : 'UTC');

// 'UTC', 'local', or a name such as Europe/Berlin
export function chooseZone(name) {
  chosen = name;
  localStorage.setItem(KEY, name);
  for (const listener of listeners) listener(name);
}

export function useZone() {
  const [now, set] = useState(chosen);
  useEffect(() => {
    listeners.add(set);
    return () => listeners.delete(set);
  }, []);
  return now;
}

function formatOf(name) {
  if (!formats.has(name)) {
    formats.set(name, new Intl.DateTimeFormat('en-GB', {timeZone: name, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit',
      hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, timeZoneName: 'short'}));
  }
  return formats.get(name);
}

const partsOf = (at, name) => Object.fromEntries(formatOf(name).formatToParts(new Date(at)).map(({type, value}) => [type, value]));

// "2026-11-26 09:00:00.123" in the zone
export function momentIn(at, name = zone()) {
  if (name === 'UTC') return new Date(at).toISOString().replace('T', ' ').replace('Z', '');
  const {year, month, day, hour, minute, second, fractionalSecond} = partsOf(at, name);
  return `${year}-${month}-${day} ${hour}:${minute}:${second}.${fractionalSecond}`;
}

// "UTC", "CET", "GMT+9": what the zone is called at that time
export const zoneLabel = (at = Date.now(), name = zone()) => (name === 'UTC' ? 'UTC' : partsOf(at, name).timeZoneName);

// The time of a clock in the zone that shows "2026-11-26T09:00". Milliseconds since 1970; NaN: not a time. Of a time that a clock shows twice,
// the first; of one that it skips, the time that much later.
export function readIn(text, name = zone()) {
  const asUtc = +new Date(`${text}Z`);
  const offset = (at) => +new Date(`${momentIn(at, name).replace(' ', 'T')}Z`) - at;
  if (Number.isNaN(asUtc) || name === 'UTC') return asUtc;
  const [before, after] = [offset(asUtc - 86400000), offset(asUtc + 86400000)];
  return offset(asUtc - before) === before || before === after ? asUtc - before : asUtc - (offset(asUtc - after) === after ? after : before);
}
