"""The console in a real Chromium, before the stack of the REST tests."""
import json
import pathlib
import shutil
import subprocess

import pytest

from harness.stack import PATIENCE, TREE

HERE = pathlib.Path(__file__).resolve().parent
WORK = TREE / ".local" / "tests" / "browser"
SECONDS = 10  # for one step on a quiet machine


def installed():
    """The folder with what package-lock.json names; brought up to date when that has changed."""
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_text()
    if not (WORK / "installed").exists() or (WORK / "installed").read_text() != lock:
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(HERE / name, WORK / name)
        done = subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        (WORK / "installed").write_text(lock)
    shutil.copy(HERE / "browser.mjs", WORK / "browser.mjs")
    return WORK


class Browser:
    """browser.sees(text="…"), browser.click(role="button", name="Cancel"): verbs of browser.mjs, which wait by themselves."""

    def __init__(self):
        program = shutil.which("chromium") or "chromium"
        self.process = subprocess.Popen(["node", "browser.mjs", program, str(int(SECONDS * 1000 * PATIENCE))], cwd=installed(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __getattr__(self, verb):
        def ask(**of):
            self.process.stdin.write(json.dumps({"do": verb, **of}) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            assert answer, f"the browser is gone (exit code {self.process.poll()})"
            answer = json.loads(answer)
            assert "error" not in answer, f"{answer['error']}\n{self._shown()}"
            return answer.get("gives")
        return ask

    def _shown(self):
        """What the page says, for a failure; not of a failure to say it."""
        self.process.stdin.write(json.dumps({"do": "text", "css": "body"}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline()).get("gives")

    def end(self):
        if self.process.poll() is None:
            self.close()
        self.process.stdin.close()
        self.process.wait(60)


class Console:
    """The browser on the console of one API."""

    def __init__(self, browser, url):
        self.browser, self.base = browser, f"{url}/console/"

    def open(self, view="", **options):
        self.browser.open(url=self.base + view, **options)
        return self

    def goto(self, view):
        self.browser.goto(url=self.base + view)

    def view(self):
        return self.browser.url().removeprefix(self.base)

    def says(self, text):
        self.browser.sees(text=text)

    def press_button(self, name, within=None):
        self.browser.click(**({"css": f"{within} >> role=button[name='{name}']"} if within else {"role": "button", "name": name, "exact": True}))

    def answer(self, name):
        """The button of the question that is asked; it is gone then."""
        self.press_button(name, within="dialog")
        self.browser.misses(css="dialog")

    def is_sound(self):
        """No request left its origin, no error came up, nothing is wider than the page, and axe-core finds nothing serious."""
        assert self.browser.axe() == []
        assert self.browser.faults() == []
        assert self.browser.overflow() <= 0


@pytest.fixture(scope="session")
def browser_packages():
    """The folder with node_modules."""
    return installed()


@pytest.fixture(scope="session")
def browser():
    made = Browser()
    yield made
    made.end()


@pytest.fixture
def console(browser, api):
    """console.open("#/jobs"): on the first API."""
    made = Console(browser, api.url)
    yield made
    assert browser.faults() == []


@pytest.fixture
def console_of(browser):
    """console_of(url): on any API."""
    return lambda url: Console(browser, url)
