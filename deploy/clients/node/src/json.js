// JSON whose integers keep all of their digits: those that a Number cannot hold are BigInts, in both directions.
import { randomBytes } from "node:crypto";

const MARK = `${randomBytes(12).toString("hex")}:`; // before the digits, in a string that no text of others can have
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

function isLarge(token) {
  return /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
}

export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const marked = text.replace(TOKENS, (token) => (isLarge(token) ? `"${MARK}${token}"` : token));
  return JSON.parse(marked, (_, value) => (typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value));
}

export function stringify(value) {
  let large = false;
  const text = JSON.stringify(value, (_, one) => {
    if (typeof one !== "bigint") return one;
    large = true;
    return `${MARK}${one}`;
  });
  return large ? text.replace(MARKED, "$1") : text;
}
