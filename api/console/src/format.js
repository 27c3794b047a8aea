// Human-readable times, durations and numbers. Times are in the zone that the reader chose (zone.js).
import {momentIn, readIn} from './zone.js';

const numbers = new Intl.NumberFormat('en');

export const count = (n) => (n === null || n === undefined ? '–' : numbers.format(n));

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

const UNITS = [['d', 86400000], ['h', 3600000], ['min', 60000], ['s', 1000]];

// "6 ms", "1.2 s", "3 min 4 s", "2 d 5 h"
export function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at];
  const whole = Math.floor(ms / size);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((ms - whole * size) / next[1]) : 0;
  return rest && whole < 100 ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

// "in 4 min", "3 s ago", "now"
export function relative(at, now = Date.now()) {
  const ms = new Date(at) - now;
  if (Math.abs(ms) < 1000) return 'now';
  const rough = duration(Math.abs(ms)).split(' ').slice(0, 2).join(' ').replace(/\.\d/, '');
  return ms > 0 ? `in ${rough}` : `${rough} ago`;
}

// "2026-11-26 09:00:00.123"; short: without the date if it is today, otherwise without seconds.
export function moment(at, {short = false, now = Date.now()} = {}) {
  const text = momentIn(at);
  if (!short) return text;
  const today = momentIn(now).slice(0, 10);
  return text.startsWith(today) ? text.slice(11, 19) : text.slice(0, 16);
}

// A duration as one number with its unit, for an axis.
export function roughly(ms) {
  const [unit, size] = ms < 1000 ? ['ms', 1] : UNITS.toReversed().find((_, i, all) => i === all.length - 1 || ms < 2 * all[i + 1][1]);
  return `${Math.round(ms / size)} ${unit}`;
}

// "PT1M30S" in milliseconds; null: not a duration.
export function readDuration(text) {
  const parts = /^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(text);
  return parts && [604800000, 86400000, 3600000, 60000, 1000].reduce((sum, size, i) => sum + size * (parts[i + 1] || 0), 0);
}

// "PT5M" as "5 min"; any other text is returned unchanged.
export function spoken(text) {
  const ms = text === null || text === undefined ? null : readDuration(text);
  return ms === null ? text : duration(ms);
}

const RELATIVE = /^([+-]?)(\d+)\s*(s|min|m|h|d)$/;
const SIZES = {s: 1000, m: 60000, min: 60000, h: 3600000, d: 86400000};

const DAYS = {yesterday: -1, today: 0, tomorrow: 1};

// Reads a time as users write it: "now", "today" (its midnight), "-1h", "+2d", "2026-11-26 09:00" (in the reader's zone) or RFC 3339. null: not a time.
export function readTime(text, now = Date.now()) {
  const written = text.trim();
  if (written === 'now') return new Date(now).toISOString();
  if (Object.hasOwn(DAYS, written)) {
    const day = new Date(`${momentIn(now).slice(0, 10)}T00:00Z`);
    return new Date(readIn(`${new Date(+day + DAYS[written] * SIZES.d).toISOString().slice(0, 10)}T00:00`)).toISOString();
  }
  const moved = RELATIVE.exec(written);
  if (moved) return new Date(now + (moved[1] === '-' ? -1 : 1) * moved[2] * SIZES[moved[3]]).toISOString();
  if (!/^\d{4}-\d\d-\d\d/.test(written)) return null;
  const iso = written.replace(' ', 'T');
  const at = new Date(/(Z|[+-]\d\d:?\d\d)$/i.test(iso) && iso.length > 10 ? iso : readIn(`${iso}${iso.length > 10 ? '' : 'T00:00'}`));
  return Number.isNaN(+at) ? null : at.toISOString();
}
