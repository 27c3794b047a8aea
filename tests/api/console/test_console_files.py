"""How the console's files are served: what its policy allows, how they are kept and compressed."""
import gzip
import re
import subprocess

import pytest

from harness.problems import refused
from harness.stack import TREE

LIMIT = 90 * 1024
POLICY = {"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'",
          "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"}


def files(api):
    """The names of all files that the page names."""
    return re.findall(r'(?:src|href)="\./([^"]+)"', api.get("/console/").text)


def test_the_console_was_built_and_is_small(api):
    names = files(api)
    assert {name.rsplit(".", 1)[1] for name in names} == {"js", "css", "svg"}, names
    answers = [api.get(path, headers={"Accept-Encoding": "gzip"}) for path in ["/console/", *(f"/console/{name}" for name in names)]]
    assert [answer.headers["Content-Encoding"] for answer in answers] == ["gzip"] * len(answers)
    assert sum(len(answer.body) for answer in answers) <= LIMIT


@pytest.mark.parametrize("which", ["", "js", "css"])
def test_the_content_security_policy_allows_only_the_consoles_own_origin(api, which):
    path = "/console/" + next((name for name in files(api) if which and name.endswith(which)), "")
    headers = api.get(path).headers
    assert {part.strip() for part in headers["Content-Security-Policy"].split(";")} == POLICY
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("accepted, coding", [("gzip", "gzip"), ("gzip, deflate, br, zstd", "br"), ("br;q=0, gzip;q=0.5", "gzip"), ("BR", "br"),
                                              ("gzip;q=0", None), ("gzip; q=0.000, br; Q=0", None), ("identity", None), ("brx, xgzip", None), (None, None)])
def test_a_file_is_served_in_an_encoding_that_the_client_accepts(api, accepted, coding):
    name = next(name for name in files(api) if name.endswith(".js"))
    plain = api.get(f"/console/{name}").body
    answer = api.get(f"/console/{name}", headers={"Accept-Encoding": accepted} if accepted else {})
    assert answer.headers["Content-Encoding"] == coding and answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert (answer.body == plain) == (coding is None)
    if coding == "gzip":
        assert gzip.decompress(answer.body) == plain


def test_files_of_the_console_are_cached_for_a_year_and_its_page_is_revalidated(api):
    assert {api.get(f"/console/{name}").headers["Cache-Control"] for name in files(api)} == {"public, max-age=31536000, immutable"}
    page = api.get("/console/")
    assert page.headers["Cache-Control"] == "no-cache"
    for tags in (page.headers["ETag"], f'"other", W/{page.headers["ETag"]}', "*"):
        again = api.get("/console/", headers={"If-None-Match": tags})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", page.headers["ETag"])
    assert api.get("/console/", headers={"If-None-Match": '"other"'}).status == 200


def test_each_page_of_the_runbook_is_served_beside_the_console(api):
    pages = sorted((TREE / "deploy" / "runbook").glob("*/*.md"))
    assert len(pages) == len({page.name for page in pages}) > 60
    for page in pages:
        answer = api.get(f"/console/{page.name}")
        assert (answer.status, answer.headers["Content-Type"], answer.headers["Cache-Control"]) == (200, "text/markdown; charset=utf-8", "no-cache"), page
        assert answer.text == page.read_text(encoding="utf-8")


def test_the_console_answers_head_and_redirects_the_path_without_slash(api):
    head = api.ask("HEAD", "/console/")
    assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 300
    moved = api.get("/console")
    assert moved.status == 308 and moved.headers["Location"] == "/console/"


def test_an_unknown_path_of_the_console_is_404(api):
    for path in ("/console/nothing.js", "/console/..%2fopenapi.yaml", "/console/index.html%00", "/console/a/b"):
        assert api.get(path).status == 404, path
    refused(api.get("/console/?x=1"), 422, "invalid", "?x")
    assert api.post("/console/", {}).status == 405


def test_the_console_sources_pass_the_linter(browser_packages):
    """Biome's recommended rules, and nothing unused; biome.json has what is left out."""
    done = subprocess.run([browser_packages / "node_modules" / ".bin" / "biome", "lint", "--error-on-warnings", "."], cwd=TREE / "api" / "console",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and "Checked" in done.stdout, done.stdout


def test_the_lock_files_name_no_package_host():
    for folder in ("api/console", "tests/api/console"):
        assert '"resolved"' not in (TREE / folder / "package-lock.json").read_text()


SOURCE = TREE / "api" / "console"


def built(folder, mode, npm=""):
    """Runs build.cmake; (exit code, what it told, the bytes of each array that it wrote)."""
    out = folder / "files.c"
    done = subprocess.run(["cmake", f"-DOUT={out}", f"-DSOURCE={SOURCE}", f"-DWORK={folder / 'work'}", f"-DMODE={mode}", f"-DNPM={npm}", "-P", SOURCE / "build.cmake"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    text = out.read_text() if out.exists() else ""
    arrays = re.findall(r"char (\w+)\[\] = \{\n([^}]*)\}", text)
    return done.returncode, done.stdout, {name: bytes.fromhex("".join(re.findall("0x(..)", body))) for name, body in arrays}


@pytest.mark.parametrize("mode, npm", [("AUTO", ""), ("OFF", "npm"), ("AUTO", "false")], ids=["no npm", "left out", "npm fails"])
def test_without_the_build_tools_the_console_page_says_so(tmp_path, mode, npm):
    code, told, files = built(tmp_path, mode, npm)
    assert code == 0 and "the console was not built" in told
    assert set(files) == {"plain_0"} and b"The console was not built" in files["plain_0"]


@pytest.mark.parametrize("npm", ["", "false"])
def test_a_build_with_the_console_required_fails_without_it(tmp_path, npm):
    code, told, files = built(tmp_path, "ON", npm)
    assert code != 0 and "the console was not built" in told and not files


def test_console_files_built_elsewhere_are_used(tmp_path):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "index.html").write_bytes(b"<p>elsewhere")
    (tmp_path / "dist" / "index.html.gz").write_bytes(gzip.compress(b"<p>elsewhere"))
    code, _, files = built(tmp_path, tmp_path / "dist")
    assert code == 0 and files["plain_0"] == b"<p>elsewhere" == gzip.decompress(files["gzip_0"])
