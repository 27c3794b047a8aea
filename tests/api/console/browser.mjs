// A Chromium that tests written in Python look through: a line of JSON in, {"do": verb, …}, a line out, {"gives": …} or {"error": …}.
// Every request of the page is noted; one that leaves its origin is told as a fault, as is every error of its console.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createInterface} from 'node:readline';
import {chromium} from 'playwright-core';

const require = createRequire(import.meta.url);
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const [program, milliseconds] = process.argv.slice(2);
const browser = await chromium.launch({executablePath: program, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']});
let page = null;
let faults = [];

function watch(fresh, origin) {
  fresh.on('request', (request) => new URL(request.url()).origin === origin || faults.push(`a request left its origin: ${request.url()}`));
  fresh.on('pageerror', (error) => faults.push(`an error in the page: ${error.stack}`));
  // A refusal or an API that is down is told as an error by the browser itself; what it is about is what tests are about.
  fresh.on('console', (message) => message.type() === 'error' && !/^Failed to load resource/.test(message.text()) && faults.push(message.text()));
}

// None of these paths is answered before all of them have been asked for.
async function answerTogether(fresh, paths) {
  const missing = new Set(paths);
  const held = [];
  await fresh.route((url) => paths.includes(url.pathname), async (route) => {
    held.push(route);
    missing.delete(new URL(route.request().url()).pathname);
    if (!missing.size) await Promise.all(held.splice(0).map((one) => one.continue()));
  });
}

const element = ({role, name, css, text, label, exact = false}) => (
  role ? page.getByRole(role, name === undefined ? {} : {name, exact}) : label ? page.getByLabel(label, {exact: true}) : text ? page.getByText(text, {exact}) : page.locator(css));

const VERBS = {
  async open({url, dark = false, width = 1280, height = 900, together = []}) {
    if (page) await page.context().close();
    faults = [];
    const context = await browser.newContext({viewport: {width, height}, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce', timezoneId: 'Asia/Tokyo'});
    page = await context.newPage();
    page.setDefaultTimeout(+milliseconds);
    watch(page, new URL(url).origin);
    if (together.length) await answerTogether(page, together);
    await page.goto(url);
  },
  goto: async ({url}) => void await page.goto(url),
  back: async () => void await page.goBack(),
  url: async () => page.url(),
  click: async (of) => void await element(of).first().click(),
  fill: async ({value, ...of}) => void await element(of).first().fill(value),
  choose: async ({value, ...of}) => void await element(of).first().selectOption(value),
  press: async ({keys}) => { for (const key of keys) await page.keyboard.press(key); },
  sees: async (of) => void await element(of).first().waitFor({state: 'visible'}),
  misses: async (of) => void await element(of).first().waitFor({state: 'hidden'}),
  count: async (of) => element(of).count(),
  text: async (of) => element(of).first().innerText(),
  offers: async ({css}) => page.evaluate((where) => [...document.querySelector(where).list.options].map(({value}) => value), css),
  focused: async () => page.evaluate(() => document.activeElement?.innerText || document.activeElement?.name || document.activeElement?.tagName),
  styles: async ({css, property}) => page.evaluate(([where, what]) => getComputedStyle(document.querySelector(where))[what], [css, property]),
  overflow: async () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
  // What the page asked for: path, and the milliseconds from which to which it was under way.
  asked: async () => page.evaluate(() => performance.getEntriesByType('resource').map(({name, startTime, responseEnd}) => [new URL(name).pathname, startTime, responseEnd])),
  storage: async () => page.evaluate(() => ({session: {...sessionStorage}, local: {...localStorage}, cookies: document.cookie})),
  shot: async ({path, full = false}) => void await page.screenshot({path, fullPage: full}),
  wait: async ({ms}) => void await page.waitForTimeout(ms),
  faults: async () => faults,
  // Serious findings of axe-core, by rule. It is put in by the debugger: the policy would not let the page load it.
  async axe() {
    await page.evaluate(AXE);
    const {violations} = await page.evaluate(() => window.axe.run(document, {resultTypes: ['violations']}));
    return violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
      .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html, failureSummary}) => `${html} (${failureSummary})`).join('; ')}`);
  },
  close: async () => void await browser.close(),
};

for await (const line of createInterface({input: process.stdin})) {
  const {do: verb, ...of} = JSON.parse(line);
  try {
    process.stdout.write(`${JSON.stringify({gives: await VERBS[verb](of)})}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({error: `${verb} ${JSON.stringify(of)}: ${error.message}`})}\n`);
  }
  if (verb === 'close') break;
}
