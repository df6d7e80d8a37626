"""The self-test finds what the course promises in vain."""

import shutil

import pytest

from grader.exercises import Course, CourseError
from grader.selftest import selftest
from tests.engine import TINY

EXERCISE = "exercises/ex01_scores/properties.py"


@pytest.fixture
def broken(tmp_path):
    """The promises of the small course that do not hold once its properties were edited."""

    def tested(old, new):
        course = shutil.copytree(TINY, tmp_path / "course")
        text = (course / EXERCISE).read_text(encoding="utf-8")
        assert text.count(old) == 1
        (course / EXERCISE).write_text(text.replace(old, new), encoding="utf-8")
        return list(selftest(Course.open(course).exercises[0]).broken())

    return tested


def test_a_property_that_does_not_follow_is_found(broken):
    odd = '@prop(points=20, follows_from=["scores_have_the_shape"])\ndef halves_refuse'
    found = broken("@prop(points=20)\ndef halves_refuse", odd)
    assert any("fails halves_refuse_an_odd_width, which does not follow from scores_have_the_shape" in s for s in found)


def test_a_claim_that_catches_nothing_is_found(broken):
    found = broken("    equal(mine(x), theirs(x))", "    equal(mine(x), mine(x))")
    assert any("is not caught by scale_multiplies" in sentence or "passes everything" in sentence for sentence in found)


def test_a_property_follows_from_those_before_it_alone(broken):
    later = '@prop(points=20, follows_from=["scale_multiplies"])\ndef halves_refuse'
    with pytest.raises(CourseError, match="halves_refuse_an_odd_width needs or follows from scale_multiplies"):
        broken("@prop(points=20)\ndef halves_refuse", later)
