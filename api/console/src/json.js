// JSON that keeps numbers as they are written: a payload's 12345678901234567890 is shown, and sent back, digit by digit. Browsers without
// access to a number's source text read it as JSON.parse does.
export function read(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  return JSON.parse(text, (_name, value, context) => (
    typeof value === 'number' && context.source !== String(value) ? JSON.rawJSON(context.source) : value));
}

export const write = (value) => JSON.stringify(value);
export const pretty = (value) => JSON.stringify(value, null, 2);
