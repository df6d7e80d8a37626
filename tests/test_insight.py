"""What the page on a class says is what the gradebook holds; names come through unharmed and harmless."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import classes
import paper_course
import pytest

from grader.classwork import BARS, Classwork, correlation, read_class, shown_name
from grader.exercises import Course
from grader.gradebook import Gradebook
from grader.insight import class_page, embedded
from grader.results import Diagnosis, PropertyResult, Report, Verdict


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return paper_course.write_course(tmp_path / "course")


@pytest.fixture
def book(tmp_path: Path):
    with Gradebook(tmp_path / "results.sqlite") as opened:
        yield opened


def hand_in(book: Gradebook, student: str, *verdicts: Verdict, exercise: str = "ex01_double", **fields: object) -> None:
    """Keep a report with these verdicts on the properties p0, p1, ..., ten points each."""
    source = str(fields.pop("source", ""))
    results = [
        PropertyResult(f"p{at}", verdict, 10 * (verdict is Verdict.PASSED), 10, f"Statement {at}.")
        for at, verdict in enumerate(verdicts)
    ]
    whole = next((verdict for verdict in verdicts if verdict is not Verdict.PASSED), Verdict.PASSED)
    values = {
        "exercise": exercise,
        "title": "t",
        "submission": student,
        "score": sum(result.points for result in results),
        "max_score": 10 * len(results),
        "verdict": whole,
        "properties": results,
        "seconds": 1.5,
        "graded_at": "2026-03-14T10:00:00+00:00",
        "environment": {"grader": "9.9"},
    }
    report = Report(**{**values, **fields})
    book.put(student, f"folder of {student}", repr(report), report, source)


PASS, FAIL = Verdict.PASSED, Verdict.FAILED


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def names_in(work: Classwork, places) -> list[str]:
    return [work.students[at].name for at in places]


def test_scores_shares_and_bars(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", PASS, PASS)
    hand_in(book, "bob", PASS, FAIL)
    hand_in(book, "cem", FAIL, FAIL)
    (exercise,) = read_class(book, course, "en").exercises
    assert exercise.title == "ex01_double in English"
    assert [exercise.bars[at] for at in (0, 5, BARS)] == [1, 1, 1]
    assert [(p.name, p.passed, p.judged) for p in exercise.properties] == [("p0", 2, 3), ("p1", 1, 3)]
    assert exercise.properties[0].outcomes == "110"


def test_what_is_not_handed_in_counts_nothing_and_is_listed(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", PASS)
    hand_in(book, "ann", PASS, exercise="ex10_training")
    hand_in(book, "bob", PASS)
    book.miss("bob", "ex10_training")
    for exercise in ("ex01_double", "ex10_training"):
        book.miss("cem", exercise)
    work = read_class(book, course, "en")
    assert work.shares == [1, 0.5, 0]
    assert names_in(work, work.exercises[1].absent) == ["bob", "cem"]
    assert names_in(work, work.nothing) == ["cem"]
    assert work.students[2].folder == ""


def test_an_error_of_the_grader_is_no_score(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", PASS)
    hand_in(book, "bob", Verdict.GRADER_ERROR, score=0, max_score=0)
    (exercise,) = read_class(book, course, "en").exercises
    assert sum(exercise.bars) == 1
    assert exercise.properties[0].judged == 1


def test_verdicts_for_the_eye_are_found_below_the_first(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", FAIL, Verdict.TIMEOUT)
    hand_in(book, "bob", Verdict.TAMPERED, FAIL)
    hand_in(book, "cem", FAIL, PASS)
    notices = read_class(book, course, "en").notices
    assert notices == {"tampered": ((0, 1),), "timeout": ((0, 0),)}


def test_what_was_handed_in_and_not_found_is_for_the_eye(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", Verdict.MISSING, Verdict.MISSING)
    hand_in(book, "bob", PASS, Verdict.MISSING)
    hand_in(book, "cem", Verdict.SYNTAX_ERROR, Verdict.SYNTAX_ERROR)
    assert read_class(book, course, "en").notices == {"unread": ((0, 0),)}


def test_a_regrade_that_took_points_away_is_for_the_eye(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", PASS, PASS)
    hand_in(book, "ann", PASS, FAIL)
    assert read_class(book, course, "en").notices == {"lowered": ((0, 0),)}


def test_mistakes_are_ranked_and_say_the_language_of_the_page(book: Gradebook, course: Course) -> None:
    for student in ("ann", "bob"):
        hand_in(book, student, FAIL, mistakes=["triples"], diagnoses=[Diagnosis("triples", "from the report", "w")])
    hand_in(book, "cem", FAIL, mistakes=["gone_by_now"], diagnoses=[Diagnosis("gone_by_now", "is gone", "by now")])
    hand_in(book, "dan", FAIL, mistakes=["nobody_knows"])
    ranked = read_class(book, course, "zh").mistakes
    assert [(made.says, made.students) for made in ranked] == [
        ("三倍", (0, 1)),
        ("is gone", (2,)),
        ("nobody knows", (3,)),
    ]


def test_a_property_that_the_able_pass_separates(book: Gradebook, course: Course) -> None:
    """p0 follows the rest, p1 goes against it, p2 is passed by all."""
    for at in range(20):
        able = at % 2 == 0
        rest = [PASS if able else FAIL] * 3
        hand_in(book, f"s{at:02}", PASS if able else FAIL, FAIL if able else PASS, PASS, *rest)
    follows, against, everyone, *_ = read_class(book, course, "en").exercises[0].properties
    assert (follows.discrimination or 0) > 0.9
    assert follows.separates == "well"
    assert (against.discrimination or 0) < -0.9
    assert against.separates == "against"
    assert (everyone.discrimination, everyone.separates) == (None, "unknown")


def test_the_correlation_is_pearsons() -> None:
    pairs = [(float(at % 2), float(at)) for at in range(10)]
    assert correlation(pairs) == pytest.approx(0.17407766)
    assert correlation(pairs[:9]) is None


def test_copies_are_grouped_and_pairs_that_meet_again_are_named(book: Gradebook, course: Course) -> None:
    import test_similarity as samples

    for exercise in ("ex01_double", "ex10_training"):
        hand_in(book, "ann", PASS, exercise=exercise, source=samples.ORIGINAL)
        hand_in(book, "bob", PASS, exercise=exercise, source=samples.DISGUISED)
        hand_in(book, "cem", PASS, exercise=exercise, source=samples.INDEPENDENT)
    work = read_class(book, course, "en")
    assert [group.authors for exercise in work.exercises for group in exercise.alike] == [(0, 1), (0, 1)]
    assert [(pair.students, pair.exercises) for pair in work.together] == [((0, 1), (0, 1))]
    assert "never a finding" in class_page(book, course, "en")


def test_an_exercise_that_the_course_no_longer_has_is_shown(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", FAIL, exercise="ex77_gone", title="Gone <b>")
    (exercise,) = read_class(book, course, "en").exercises
    assert (exercise.id, exercise.title, exercise.properties[0].statement) == ("ex77", "Gone <b>", "Statement 0.")
    assert "Gone &lt;b&gt;" in class_page(book, course, "en")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_empty_gradebook_has_a_page(book: Gradebook, course: Course, lang: str) -> None:
    assert {"en": "nothing has been graded", "zh": "还没有评过"}[lang] in class_page(book, course, lang)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_class_of_one_has_a_page(book: Gradebook, course: Course, lang: str) -> None:
    hand_in(book, "ann", PASS)
    assert {"en": "1 student, 1 exercise<", "zh": "1 名学生，1 个练习<"}[lang] in class_page(book, course, lang)


@pytest.mark.parametrize("name", classes.NAMES)
def test_names_come_through_unharmed_and_harmless(book: Gradebook, course: Course, name: str) -> None:
    hand_in(book, name, PASS, exercise="ex01_double")
    book.miss(name, "ex10_training")
    page = class_page(book, course, "en")
    data = data_of(page)
    assert data["names"] == [shown_name(name)]
    assert data["folders"] == [f"folder of {name}"]
    assert page.count("<script") == 2
    assert "<img" not in page
    assert not set("\u202e\u2028\x1b") & set(page)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("007", "007"),
        ("王小明", "王小明"),
        ("=cmd|'/c calc'!A1", "=cmd|'/c calc'!A1"),
        ("Ada 👩‍💻", "Ada 👩‍💻"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\nb", r"a\nb"),
        (" ", "“ ”"),
        ("", "“”"),
        ("\ud800", r"\ud800"),
        ("w" * 121, "w" * 120 + "…"),
    ],
)
def test_a_name_is_shown_as_it_is_written(name: str, shown: str) -> None:
    assert shown_name(name) == shown


def test_embedded_data_cannot_end_its_element() -> None:
    hostile = ["</script><script>alert(1)</script>", "<!--", "\u2028", "&lt;", "]]>"]
    encoded = embedded(hostile)
    assert not set("<>&\u2028") & set(encoded)
    assert json.loads(encoded) == hostile


def test_texts_of_a_report_are_escaped(book: Gradebook, course: Course) -> None:
    evil = "<img src=x onerror=alert(1)>\u202e"
    hand_in(book, "ann", FAIL, mistakes=["m"], diagnoses=[Diagnosis("m", evil, evil)], environment={"grader": evil})
    page = class_page(book, course, "en")
    assert "<img" not in page
    assert html.escape("<img src=x onerror=alert(1)>") in page


def test_the_page_needs_nothing_else(book: Gradebook, course: Course) -> None:
    hand_in(book, "ann", PASS)
    page = class_page(book, course, "en")
    assert "default-src 'none'" in html.unescape(page)
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert not re.search(r"https?://", page)
    assert " style=" not in page
