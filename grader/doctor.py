"""What `grade doctor` looks at: whether this machine has what grading needs, and how well it contains a submission."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from grader import __version__
from grader.exercises import Course, CourseError
from grader.messages import text

NEEDED = ("torch", "hypothesis", "pytest", "pytest-json-report", "msgspec", "jinja2", "rich", "click")
EXTRAS = {"watchfiles": "watch", "distributed": "dask"}


def findings(course_folder: str | None, lang: str) -> Iterator[tuple[str, str, bool]]:
    """Name, what was found, whether that is good enough to grade."""
    yield "grade", __version__, True
    yield "Python", f"{platform.python_version()} ({sys.platform}, {platform.machine()})", sys.version_info >= (3, 11)
    for name in NEEDED:
        try:
            yield name, metadata.version(name), True
        except metadata.PackageNotFoundError:
            yield name, text("doctor.missing", lang, name=name), False
    for name, extra in EXTRAS.items():
        if importlib.util.find_spec(name) is None:
            yield name, text("doctor.optional", lang, extra=extra), True
    yield _course(course_folder, lang)
    yield from _isolation(lang)


def _course(folder: str | None, lang: str) -> tuple[str, str, bool]:
    try:
        course = Course.open(folder)
    except CourseError as error:
        return "course", error.sentence(lang), False
    taught = sum(exercise.solution is not None for exercise in course.exercises)
    found = text("doctor.course", lang, count=len(course.exercises), taught=taught, folder=course.folder)
    return "course", found, True


def _isolation(lang: str) -> Iterator[tuple[str, str, bool]]:
    """Tries it: what stands between a submission and this machine is what a started worker reports."""
    from grader import isolation

    try:
        with isolation.start(mode="best") as zygote:
            found = zygote.describe(lang)
    except Exception as error:
        yield "isolation", f"{type(error).__name__}: {error}", False
        return
    yield "isolation", found.level, True
    for layer in found.layers:
        yield "", f"{'+' if layer.enforced else '-'} {layer.name}: {layer.detail}", True
