"""What a browser makes of the HTML reports: accessible, quiet, nothing wider than the window, nothing loaded.

Needs playwright, axe-playwright-python and a Chromium; skipped where one of them is missing (`make browser`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import samples

from grader.reporters import html
from grader.results import Report, Verdict

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.base")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
FLAGS = ["no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[f"--{flag}" for flag in FLAGS])
        yield browser
        browser.close()


class Visit:
    """A report opened from disk, with everything the browser complained about or asked for."""

    def __init__(self, browser: playwright.Browser, folder: Path, report: Report, **options: object) -> None:
        file = folder / "report.html"
        file.write_text(html.render(report), encoding="utf-8")
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.evaluate(OPEN_ALL)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def loaded(self) -> list[str]:
        return [url for url in self.requests[1:] if not url.startswith("data:")]

    def overflow(self) -> int:
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def violations(self) -> list[str]:
        self.page.evaluate(axe.AXE_FILE_PATH.read_text(encoding="utf-8"))
        found = self.page.evaluate(f"axe.run({{runOnly: {RULES}}})")["violations"]
        return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", [name for name in samples.SAMPLES if name != "hostile"])
def test_a_report_is_accessible_and_loads_nothing(browser, tmp_path: Path, name: str, lang: str, scheme: str) -> None:
    with Visit(browser, tmp_path, samples.SAMPLES[name](lang), color_scheme=scheme) as visit:
        assert visit.violations() == []
        assert visit.complaints == []
        assert visit.loaded() == []


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_is_accessible(browser, tmp_path: Path, verdict: Verdict) -> None:
    with Visit(browser, tmp_path, samples.ended(verdict)) as visit:
        assert visit.violations() == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["off_by_one", "raised", "hostile"])
def test_nothing_is_wider_than_the_window(browser, tmp_path: Path, name: str, lang: str, width: int) -> None:
    with Visit(browser, tmp_path, samples.SAMPLES[name](lang), viewport={"width": width, "height": 800}) as visit:
        assert visit.overflow() <= 0


def test_hostile_text_does_nothing(browser, tmp_path: Path) -> None:
    with Visit(browser, tmp_path, samples.hostile()) as visit:
        assert visit.complaints == []
        assert visit.loaded() == []
        assert visit.page.locator("img, iframe, main svg, main script").count() == 0


def test_the_copy_button_copies_the_code(browser, tmp_path: Path) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with Visit(browser, tmp_path, samples.off_by_one(), permissions=permissions) as visit:
        visit.page.get_by_role("button", name="Copy").first.click()
        visit.page.get_by_text("Copied").first.wait_for()
        assert visit.page.evaluate("navigator.clipboard.readText()") == samples.MASK_CODE


def test_without_scripts_there_is_no_dead_button(browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(samples.off_by_one()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.get_by_role("button", name="Copy").count() == 0
    assert page.get_by_text("print(causal_mask(3))").is_visible()
    context.close()


def test_the_policy_stops_a_script_that_got_in(browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    page = html.render(samples.passed()).replace("</main>", "<script>document.title='owned'</script></main>")
    file.write_text(page, encoding="utf-8")
    tab = browser.new_page()
    tab.goto(file.as_uri())
    assert "owned" not in tab.title()
    tab.close()


def test_on_paper_everything_is_open(browser, tmp_path: Path) -> None:
    with Visit(browser, tmp_path, samples.off_by_one()) as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = false)")
        visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visit.page.locator("details:not([open])").count() == 0
