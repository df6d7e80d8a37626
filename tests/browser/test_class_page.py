"""What a browser makes of the page on a class: fast with thousands, accessible, sortable, filterable, printable.

Needs playwright, axe-playwright-python and a Chromium; skipped where one of them is missing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import classes

from grader.classwork import shown_name
from grader.exercises import Course
from grader.insight import class_page

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.base")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
FLAGS = ["no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"
ROWS = ".all tbody tr"
LARGE = 2000  # students


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[f"--{flag}" for flag in FLAGS])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A class of forty in both languages."""
    folder = tmp_path_factory.mktemp("class")
    written = {}
    with classes.made(folder, Course.open(), 40) as book:
        for lang in ("en", "zh"):
            written[lang] = folder / f"class.{lang}.html"
            written[lang].write_text(class_page(book, Course.open(), lang), encoding="utf-8")
    return written


class Visit:
    """The page opened from disk, with everything the browser complained about or asked for."""

    def __init__(self, browser: playwright.Browser, file: Path, **options: object) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def column(self, at: int) -> list[str]:
        return self.page.locator(f"{ROWS} > :nth-child({at})").all_inner_texts()

    def violations(self) -> list[str]:
        self.page.evaluate(axe.AXE_FILE_PATH.read_text(encoding="utf-8"))
        found = self.page.evaluate(f"axe.run({{runOnly: {RULES}}})")["violations"]
        return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_accessible_and_loads_nothing(browser, pages, lang: str, scheme: str) -> None:
    with Visit(browser, pages[lang], color_scheme=scheme) as visit:
        visit.page.evaluate(OPEN_ALL)
        visit.page.locator(".facts button").first.click()
        assert visit.violations() == []
        assert visit.complaints == []
        assert [url for url in visit.requests[1:] if not url.startswith("data:")] == []


@pytest.mark.parametrize("width", [320, 768, 1280])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_is_wider_than_the_window(browser, pages, lang: str, width: int) -> None:
    with Visit(browser, pages[lang], viewport={"width": width, "height": 800}) as visit:
        visit.page.evaluate(OPEN_ALL)
        over = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0


def test_every_name_is_there_and_does_nothing(browser, pages) -> None:
    with Visit(browser, pages["en"]) as visit:
        assert {shown_name(name) for name in classes.NAMES} <= set(visit.column(1))
        assert visit.page.locator("img, iframe").count() == 0
        assert visit.complaints == []


def test_links_lead_to_the_reports(browser, pages) -> None:
    with Visit(browser, pages["en"]) as visit:
        row = visit.page.locator(ROWS).filter(has_text="a/b & c?d#e")
        assert row.locator("a").first.get_attribute("href").startswith("reports/s0013%20a_b%20%26%20c%3Fd%23e/ex0")


def test_columns_sort_both_ways(browser, pages) -> None:
    with Visit(browser, pages["en"]) as visit:
        head = visit.page.get_by_role("columnheader", name="All")
        head.get_by_role("button").click()
        shares = [int(text.split()[0]) for text in visit.column(2)]
        assert head.get_attribute("aria-sort") == "descending"
        assert shares == sorted(shares, reverse=True)
        head.get_by_role("button").click()
        assert [int(text.split()[0]) for text in visit.column(2)] == sorted(shares)


def test_names_and_kinds_filter(browser, pages) -> None:
    with Visit(browser, pages["en"]) as visit:
        visit.page.get_by_label("Find a name").fill("LOVELACE")
        assert visit.column(1) == ["Ada 👩‍💻 Lovelace"]
        assert visit.page.locator("output").inner_text() == "1 of 40 students"
        visit.page.get_by_label("Find a name").fill("nobody at all")
        assert visit.page.get_by_text("Nobody fits this.").is_visible()
        visit.page.get_by_label("Find a name").fill("")
        visit.page.get_by_label("Show").select_option("absent")
        assert 0 < visit.page.locator(ROWS).count() < 40
        assert all("–" in text for text in visit.page.locator(ROWS).all_inner_texts())


def test_a_property_shows_whom_it_fails(browser, pages) -> None:
    with Visit(browser, pages["en"]) as visit:
        visit.page.evaluate(OPEN_ALL)
        button = visit.page.locator(".facts button").first
        count = int(button.inner_text().split()[0])
        button.click()
        assert visit.page.locator(ROWS).count() == count
        visit.page.get_by_role("button", name="Remove this filter").click()
        assert visit.page.locator(ROWS).count() == 40


def test_paper_has_the_heads_of_the_columns_and_no_controls(browser, pages) -> None:
    with Visit(browser, pages["en"]) as visit:
        visit.page.emulate_media(media="print")
        assert visit.page.locator(".all thead").get_by_text("ex04").is_visible()
        assert visit.page.get_by_label("Find a name").is_hidden()
        assert visit.page.get_by_role("button", name="Print").is_hidden()


def test_without_scripts_the_figures_are_there(browser, pages) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["en"].as_uri())
    assert page.get_by_text("gradebook.csv has all of them").is_visible()
    assert page.locator(".chart").count() == len(Course.open().exercises)
    assert page.locator("form").is_hidden()
    context.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    with classes.made(folder, Course.open(), LARGE, copies=True) as book:
        (folder / "class.html").write_text(class_page(book, Course.open(), "en"), encoding="utf-8")
    return folder / "class.html"


def test_a_large_class_shows_its_first_rows_and_prints_whole(browser, large: Path) -> None:
    with Visit(browser, large) as visit:
        visit.page.locator(ROWS).first.wait_for()
        assert visit.page.locator(ROWS).count() < 200
        visit.page.locator(".box").evaluate("box => box.scrollTo(0, box.scrollHeight)")
        visit.page.wait_for_function(f"document.querySelectorAll('{ROWS}').length > 150")
        visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visit.page.locator(ROWS).count() == LARGE
        assert visit.page.locator(".exercise:not([open])").count() == 0
