"""Every report renders in every format and language, says what it must, and nothing in it can do harm."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
import samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import grader
from grader.messages import text
from grader.reporters import REPORTERS, columns, harmless, html, junit, tensors, terminal
from grader.reporters import json as json_reporter
from grader.results import (
    Counterexample,
    Diagnosis,
    Isolation,
    Layer,
    Location,
    PropertyResult,
    Report,
    TensorView,
    Verdict,
)

REPORTS = Path(__file__).parents[1] / "reports"
UPDATE = bool(os.environ.get("UPDATE_GOLDENS"))
GOLDEN = ("passed", "off_by_one", "raised", "syntax_error")
SUFFIX = {"html": "html", "json": "json", "junit": "xml", "text": "txt"}
SGR = re.compile(r"\x1b\[(?:0|1|2|31|32|1;33|1;7)m")


def golden(path: Path, content: str) -> None:
    """Compare with the committed file; UPDATE_GOLDENS=1 writes it instead."""
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == content, f"{path.name} differs; UPDATE_GOLDENS=1 writes it"


# --- what each format says


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("format", sorted(SUFFIX))
def test_sample_reports_are_as_committed(format: str, name: str, lang: str) -> None:
    shown = REPORTERS[format](samples.SAMPLES[name](lang))
    golden(REPORTS / "samples" / f"{name}.{lang}.{SUFFIX[format]}", shown)


def test_the_published_schema_is_that_of_the_results() -> None:
    golden(REPORTS / "report-v1.schema.json", json.dumps(json_reporter.schema(), indent=2, sort_keys=True) + "\n")


def test_json_has_the_published_form_and_says_exactly_what_the_report_says() -> None:
    report = samples.off_by_one()
    decoded = json.loads(json_reporter.render(report))
    assert next(iter(decoded)) == "schema"
    assert decoded["schema"] == "grader/report/v1"
    assert decoded["mistakes"] == ["hides_the_current_position"]
    assert decoded["properties"][1]["counterexample"] is None
    assert msgspec.convert(decoded, Report) == report


def test_junit_has_one_testcase_a_property_and_the_points() -> None:
    suite = ElementTree.fromstring(junit.render(samples.off_by_one())).find("testsuite")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == list(samples.STATEMENTS)
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8",
        "failures": "2",
        "errors": "0",
        "skipped": "2",
    }
    points = {entry.get("name"): entry.get("value") for entry in cases[4].iter("property")}
    assert (points["score"], points["max_score"]) == ("20", "20")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_junit_passes_only_what_passed(verdict: Verdict) -> None:
    case = ElementTree.fromstring(junit.render(samples.ended(verdict))).findall(".//testcase")[3]
    kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    assert (kinds == []) is (verdict is Verdict.PASSED)


def test_the_terminal_ends_with_the_mistake_and_the_next_step() -> None:
    last = terminal.render(samples.off_by_one(), saved_at="report.html").splitlines()[-7:]
    assert "  hides the current position as well" in last
    assert last[-2:] == ["Next: A hint is at hand: grade hint ex04", "Report  report.html"]


def test_the_terminal_marks_the_worst_element_and_the_line_that_raised() -> None:
    assert re.search(r"▸False  False  False +▸ True  False  False", terminal.render(samples.off_by_one()))
    assert "▸ 41 │     return weights.transpose(-2, -1) @ hidden" in terminal.render(samples.raised())


def test_one_and_the_same_trouble_is_told_once() -> None:
    for format in ("text", "html"):
        shown = REPORTERS[format](samples.syntax_error())
        assert shown.count("was never closed") == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", [name for name in samples.SAMPLES if name != "hostile"])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_terminal_lines_fit(name: str, lang: str, width: int) -> None:
    shown = terminal.render(samples.SAMPLES[name](lang), width=width, saved_at="report.html")
    assert [line for line in shown.splitlines() if columns.width(line) > width] == []


def test_a_skipped_property_is_one_dim_line() -> None:
    shown = terminal.render_in_colour(samples.raised()).splitlines()
    skipped = [line for line in shown if "skipped" in line]
    assert len(skipped) == 4
    assert all(line.startswith("\x1b[2m") and line.endswith("\x1b[0m") for line in skipped)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "gbk", "utf-8", "no-such-encoding"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_terminal_prints_only_what_the_console_can(encoding: str, lang: str) -> None:
    shown = terminal.render(samples.off_by_one(lang), encoding=encoding)
    shown.encode("ascii" if encoding.startswith("no") else encoding)
    if encoding == "gbk" and lang == "zh":
        assert "把当前位置也屏蔽了" in shown
    if encoding == "ascii" and lang == "en":
        assert "x  0/10  causal_mask(T)" in shown


class Console(io.StringIO):
    encoding = "gbk"

    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_that_want_them() -> None:
    assert terminal.options_for(Console(), {}, 120) == {"width": 100, "colour": True, "encoding": "gbk"}
    assert not terminal.options_for(Console(), {"NO_COLOR": "1"})["colour"]
    assert not terminal.options_for(Console(), {"TERM": "dumb"})["colour"]
    assert not terminal.options_for(io.StringIO(), {})["colour"]


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_verdict_has_words_in_every_format(verdict: Verdict, lang: str) -> None:
    for format in ("html", "text"):
        shown = REPORTERS[format](samples.ended(verdict, lang))
        assert text(f"report.verdict.{verdict.value}", lang) in shown


def test_reporters_import_results_and_messages_only() -> None:
    allowed = ("grader.results", "grader.messages", "grader.reporters")
    for path in (Path(grader.__file__).parent / "reporters").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grader"):
                assert node.module.startswith(allowed), f"{path.name} imports {node.module}"


# --- columns and tensors


def test_chinese_counts_two_columns() -> None:
    assert columns.width("中文a") == 5
    assert columns.width("e\u0301") == 1
    assert columns.clip("中文字", 5) == "中文…"


def test_chinese_breaks_between_characters_but_not_before_punctuation() -> None:
    assert columns.wrap("位置可以看到自己，对吗", 16) == ["位置可以看到自", "己，对吗"]


@given(st.text(max_size=60), st.integers(8, 30))
@settings(derandomize=True, database=None, deadline=None)
def test_wrapping_keeps_every_word_and_fits(value: str, width: int) -> None:
    lines = columns.wrap(value, width)
    assert "".join("".join(lines).split()) == "".join(value.split())
    assert all(columns.width(line) <= width + 2 for line in lines)  # closing punctuation may hang


def test_a_tensor_of_four_dimensions_is_pages_of_rows() -> None:
    values = [[[["1", "2"], ["3", "4"]], [["5", "6"], ["7", "8"]]]]
    view = TensorView("x", "got", "float32", [1, 2, 2, 2], values, [0, 1, 1, 0], ["B", "H", "T", "D"])
    first, second = tensors.pages(view, 9)
    assert (first.where, first.rows, first.worst) == ("B 0, H 0", [["1", "2"], ["3", "4"]], None)
    assert (second.where, second.worst, second.axes) == ("B 0, H 1", (1, 0), ("T", "D"))


def test_the_page_with_the_worst_element_is_always_shown() -> None:
    values = [[["0"]] for _ in range(50)]
    view = TensorView("x", "got", "float32", [50, 1, 1], values, [49, 0, 0])
    assert [page.where for page in tensors.pages(view, 3)] == ["[0, :, :]", "[1, :, :]", "[49, :, :]"]


def test_a_shape_names_its_axes_where_they_have_names() -> None:
    view = TensorView("x", "input", "float32", [1, 6, 2], None, None, ["B", "6", "2*D"])
    assert tensors.shape(view) == "B=1, 6, 2*D=2"
    assert tensors.shape(msgspec.structs.replace(view, axes=None)) == "1, 6, 2"


@pytest.mark.parametrize(
    ("values", "rows"),
    [("7", [["7"]]), (["1", "2"], [["1", "2"]]), ([], [[]]), ([[]], [[]]), ([["1"], "2"], [["1"], ["2"]])],
)
def test_small_and_odd_tensors_have_a_page(values: object, rows: list[list[str]]) -> None:
    assert tensors.pages(TensorView("x", "got", "int64", [], values), 3)[0].rows == rows


def test_shades_follow_sign_and_size() -> None:
    assert [tensors.shade(cell, 2.0) for cell in ("2", "-2", "0", "nan", "inf", "True", "False", "x")] == [
        "p6", "n6", "z", "odd", "odd", "p2", "z", "odd",
    ]  # fmt: skip


def test_a_large_tensor_is_shown_around_its_worst_element() -> None:
    values = [[str(100 * row + column) for column in range(60)] for row in range(60)]
    example = Counterexample({}, [TensorView("x", "got", "float32", [60, 60], values, [55, 57])], "")
    trouble = samples.result("values", Verdict.FAILED, message="no", counterexample=example)
    shown = terminal.render(samples.report([trouble], Verdict.FAILED))
    assert "▸5557" in shown
    assert max(map(len, shown.splitlines())) <= 80
    page = html.render(samples.report([trouble], Verdict.FAILED))
    assert "rows 13 to 60" not in page
    assert text("report.part_shown", "en", first=12, last=59, all=60) in page


# --- hostile text


class Page(HTMLParser):
    """The tags and attributes of a page; raises nothing, counts everything."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def assert_html_is_harmless(page: str, report: Report) -> None:
    parsed = Page(page)
    assert len(page.encode()) <= harmless.BUDGET
    assert parsed.tags.count("script") == parsed.tags.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "form", "input", "base"} & set(parsed.tags)
    names = [name for name, _ in parsed.attributes]
    assert not [name for name in names if name.startswith("on") or name in ("style", "src", "srcset", "action")]
    links = {value for name, value in parsed.attributes if name == "href"}
    assert all(link.startswith("#") or link == "data:," for link in links if link)
    assert sum((value or "").startswith("property-") for name, value in parsed.attributes if name == "id") >= len(
        report.properties
    )
    assert_nothing_is_invisible(page)


def assert_nothing_is_invisible(shown: str) -> None:
    hidden = {character for character in set(shown) if unicodedata.category(character) in harmless._INVISIBLE} - {"\n"}
    assert hidden == set()


def assert_all_formats_are_harmless(report: Report) -> None:
    count = len(report.properties)
    assert_html_is_harmless(html.render(report), report)
    document = junit.render(report)
    assert len(ElementTree.fromstring(document.encode()).findall(".//testcase")) == count
    assert_nothing_is_invisible(document)
    encoded = json_reporter.render(report)
    assert len(msgspec.json.decode(encoded.encode(), type=Report).properties) == count
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", encoded)
    assert_nothing_is_invisible(terminal.render(report))
    assert_nothing_is_invisible(SGR.sub("", terminal.render_in_colour(report)))
    assert max(len(encoded.encode()), len(document.encode())) <= harmless.BUDGET


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_hostile_text_is_shown_harmless_and_cut(lang: str) -> None:
    report = samples.hostile(lang)
    assert_all_formats_are_harmless(report)
    shown = terminal.render(report)
    assert "\\x1b[2J" in shown
    assert "\\u202eevil" in shown
    assert str(10_000_000 - terminal.LIMIT) in shown


def test_a_report_of_very_many_properties_stays_in_the_budget_and_keeps_every_row() -> None:
    long = "x" * 10_000
    trouble = [
        samples.result("values", Verdict.FAILED, message=f"{at}" + long, look=long, prints=long) for at in range(200)
    ]
    report = samples.report(trouble, Verdict.FAILED)
    assert_all_formats_are_harmless(report)
    assert terminal.render(report).count(" 0/20 ") == 200


def test_visible_text_is_left_alone() -> None:
    plain = "中文，Ünïcödé — “quotes” ✓ 𝛼 e\u0301\nnext line"
    assert harmless.visible(plain) == plain
    assert harmless.visible("a\tb\r\nc\x00") == "a   b\nc\\x00"


ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=30),
    st.sampled_from([entry[:300] for entry in samples.HOSTILE]),
)
POINTS = st.integers(0, 10_000).map(lambda value: value / 100)
CELLS = st.recursive(
    st.one_of(ANY_TEXT, st.floats(), st.booleans(), st.integers()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=12,
)
INDEX = st.none() | st.lists(st.integers(0, 3), max_size=5)
VIEWS = st.builds(
    TensorView,
    name=ANY_TEXT,
    role=st.sampled_from(["got", "want", "input"]) | ANY_TEXT,
    dtype=ANY_TEXT,
    shape=st.lists(st.integers(0, 9), max_size=5),
    values=st.none() | CELLS,
    worst=INDEX,
    axes=st.none() | st.lists(ANY_TEXT, max_size=5),
)
EXAMPLES = st.builds(
    Counterexample,
    sizes=st.dictionaries(ANY_TEXT, st.integers(0, 9), max_size=3),
    tensors=st.lists(VIEWS, max_size=4),
    code=ANY_TEXT,
)
PLACES = st.builds(
    Location,
    file=ANY_TEXT,
    line=st.integers(0, 50),
    function=ANY_TEXT,
    first=st.integers(0, 50),
    lines=st.lists(ANY_TEXT, max_size=6),
)
RESULTS = st.builds(
    PropertyResult,
    name=ANY_TEXT,
    verdict=st.sampled_from(Verdict),
    points=POINTS,
    max_points=POINTS,
    statement=ANY_TEXT,
    message=ANY_TEXT,
    look=ANY_TEXT,
    counterexample=st.none() | EXAMPLES,
    location=st.none() | PLACES,
    prints=ANY_TEXT,
    prints_cut=st.booleans(),
)
RANDOM_REPORTS = st.builds(
    Report,
    exercise=ANY_TEXT,
    title=ANY_TEXT,
    submission=ANY_TEXT,
    score=POINTS,
    max_score=POINTS,
    verdict=st.sampled_from(Verdict),
    properties=st.lists(RESULTS, max_size=4),
    mistakes=st.lists(ANY_TEXT, max_size=2),
    diagnoses=st.lists(st.builds(Diagnosis, name=ANY_TEXT, says=ANY_TEXT, why=ANY_TEXT), max_size=2),
    message=ANY_TEXT,
    next_step=ANY_TEXT,
    lang=st.sampled_from(["en", "zh", "fr"]),
    schema=st.just("grader/report/v1"),
    environment=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3),
    isolation=st.none()
    | st.builds(
        Isolation,
        level=st.sampled_from(["contained", "limits_only", "none"]) | ANY_TEXT,
        layers=st.lists(st.builds(Layer, name=ANY_TEXT, enforced=st.booleans(), detail=ANY_TEXT), max_size=2),
        not_prevented=st.lists(ANY_TEXT, max_size=2),
    ),
    seconds=POINTS,
    graded_at=ANY_TEXT,
)


@given(RANDOM_REPORTS)
@settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_every_report_renders_in_every_format_and_stays_harmless(report: Report) -> None:
    assert_all_formats_are_harmless(report)
