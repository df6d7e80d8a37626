"""A folder -> Course and Exercise. The engine knows no exercise by name; everything about one is in its two folders.

A course is a folder with `exercises/` and, for those who teach, `solutions/`. Their subfolders are called
`exNN_slug`; the names give the order. Without a solution folder (a student edition) there is no reference.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
import json
import os
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import messages
from grader.mistakes import Mistake

LANGUAGES = ("en", "zh")
LESSONS = {"en": "README.md", "zh": "README.zh.md"}
FOLDER_NAME = re.compile(r"ex(\d+)_([a-z0-9_]+)")
BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"


class CourseError(Exception):
    """A defect of the course itself, never of a submission: says the defect, the file and the next step."""

    def __init__(self, key: str, /, **params: object) -> None:
        super().__init__(key)
        self.key, self.params = key, params

    def sentence(self, lang: str) -> str:
        return messages.text(self.key, lang, **self.params)

    def __str__(self) -> str:
        return self.sentence("en")


class UnknownExercise(CourseError):
    """A word that names no exercise of the course."""


def load_module(path: Path, name: str) -> ModuleType:
    """The one door for the course's Python: runs the file at `path` as module `name`.

    It is never on `sys.path`, and no `__pycache__` is written beside it. Whatever is wrong with the file becomes a
    `CourseError`.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise CourseError("course.not_python", file=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(read_source(path), str(path), "exec", dont_inherit=True), module.__dict__)
    except CourseError:
        sys.modules.pop(name, None)
        raise
    except Exception as error:
        sys.modules.pop(name, None)
        raise CourseError("course.does_not_load", file=path, error=f"{type(error).__name__}: {error}") from error
    return module


def read_source(path: Path) -> str:
    """The text of one of the course's own Python files."""
    try:
        with tokenize.open(path) as file:
            return file.read()
    except FileNotFoundError:
        raise CourseError("course.file_missing", file=path) from None
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise CourseError("course.does_not_load", file=path, error=f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Question:
    """One question of a quiz: `kind` is "number", "shape" or "choice"; a choice is answered by its letter or text."""

    text: str
    kind: str
    answer: str
    choices: tuple[str, ...]
    explanation: str

    def accepts(self, answer: str) -> bool:
        """Spaces, outer brackets and capitals make no difference; for a choice its letter (a, b, ...) counts too."""
        if self.kind == "choice":
            letters = {chr(ord("a") + place): choice for place, choice in enumerate(self.choices)}
            given, right = (letters.get(text.strip().lower(), text) for text in (answer, self.answer))
            return _plain(given) == _plain(right)
        if self.kind == "number":
            return _number(answer) == _number(self.answer)
        return _plain(answer) == _plain(self.answer)

    @property
    def shown_answer(self) -> str:
        """The answer as a person reads it; a choice's own text where only its letter is written down."""
        letters = {chr(ord("a") + place): choice for place, choice in enumerate(self.choices)}
        return letters.get(self.answer.strip().lower(), self.answer)


WIDE = str.maketrans("，（）［］【】。", ",()[][].")


def _plain(answer: str) -> str:
    text = re.sub(r"\s+", "", answer.translate(WIDE).lower()).removesuffix(".")
    return re.sub(r"^[(\[](.*?),?[)\]]$", r"\1", text)


def _number(answer: str) -> float | str:
    """1,024 is 1024; what is not a number is compared as text."""
    text = _plain(answer)
    try:
        return float(re.sub(r",(?=\d{3}(\D|$))", "", text))
    except ValueError:
        return text


@dataclass(frozen=True)
class Exercise:
    """One exercise: `folder` is what a learner opens, `solution` what an instructor keeps (None: student edition)."""

    slug: str
    folder: Path
    solution: Path | None = None

    @property
    def id(self) -> str:
        """`ex04` of `ex04_causal_mask`."""
        return self.slug.split("_", 1)[0]

    @property
    def module(self) -> str:
        """The name of the file that a learner writes, `ex04_causal_mask.py`."""
        return f"{self.slug}.py"

    # ---- texts (exercise.toml)

    @functools.cached_property
    def texts(self) -> Mapping[str, Any]:
        """exercise.toml as it stands."""
        path = self.folder / "exercise.toml"
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CourseError("course.file_missing", file=path) from None
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise CourseError("course.does_not_load", file=path, error=f"{type(error).__name__}: {error}") from error

    def title(self, lang: str) -> str:
        return self._translated("title", lang)

    def summary(self, lang: str) -> str:
        return self._translated("summary", lang)

    def _translated(self, section: str, lang: str) -> str:
        return str(self.texts.get(section, {}).get(lang) or self.texts.get(section, {}).get("en", ""))

    @property
    def forbidden(self) -> tuple[str, ...]:
        """Names of operations that this exercise's submission must not run."""
        return tuple(self.texts.get("forbidden", ()))

    def statement(self, prop: str, lang: str) -> str:
        """What property `prop` says, "" where exercise.toml has no text (English stands in the docstring)."""
        return str(self.texts.get("properties", {}).get(prop, {}).get(lang, ""))

    def look(self, prop: str, lang: str) -> str:
        """Where to look when property `prop` fails."""
        return str(self.texts.get("properties", {}).get(prop, {}).get(f"look_{lang}", ""))

    def message(self, key: str, lang: str) -> str:
        """The text of one of the exercise's own messages (`holds(condition, key)`)."""
        found = self.texts.get("messages", {}).get(key)
        if not found or lang not in found:
            raise CourseError("course.no_message", file=self.folder / "exercise.toml", key=key, lang=lang)
        return str(found[lang])

    def hints(self, lang: str) -> tuple[str, ...]:
        """From a nudge to nearly the answer."""
        return tuple(str(hint.get(lang, hint.get("en", ""))) for hint in self.texts.get("hints", ()))

    def quiz(self, lang: str) -> tuple[Question, ...]:
        return tuple(
            Question(
                text=str(entry.get(f"question_{lang}", "")),
                kind=str(entry.get("kind", "")),
                answer=str(entry.get(f"answer_{lang}", entry.get("answer", ""))),
                choices=tuple(str(choice) for choice in entry.get(f"choices_{lang}", entry.get("choices", ()))),
                explanation=str(entry.get(f"explain_{lang}", "")),
            )
            for entry in self.texts.get("quiz", ())
        )

    def lesson(self, lang: str) -> str:
        """The lesson as Markdown; the English one where the other is missing."""
        for name in (LESSONS.get(lang, LESSONS["en"]), LESSONS["en"]):
            path = self.folder / name
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise CourseError("course.file_missing", file=self.folder / LESSONS["en"])

    # ---- Python files

    @property
    def stub(self) -> str:
        """The file a learner begins with."""
        return read_source(self.folder / self.module)

    @property
    def reference(self) -> str | None:
        """The right answer's source, markers included; None in a student edition."""
        return read_source(self.solution / self.module) if self.solution else None

    @property
    def variants(self) -> dict[str, str]:
        """Right answers in an unusual style: name -> source."""
        if self.solution is None:
            return {}
        return {path.stem: read_source(path) for path in sorted((self.solution / "variants").glob("*.py"))}

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The public functions and classes that the stub asks for, in its order."""
        return defined_names(ast.parse(self.stub))

    def stub_from_reference(self) -> str:
        """What the stub has to be."""
        if self.reference is None:
            raise CourseError("course.no_solution", slug=self.slug)
        return stub_from_reference(self.reference, self.id, where=self.module)

    def properties(self) -> ModuleType:
        """properties.py as a module, loaded anew."""
        return load_module(self.folder / "properties.py", f"course.{self.slug}.properties")

    @property
    def record(self) -> Path:
        """Where the cases of the properties are on record."""
        return self.folder / "cases.json"

    def cases(self) -> dict[str, Any]:
        """cases.json: property -> its recorded cases; nothing where there is no record yet.

        Raises:
            ValueError, TypeError: that is not what stands in it.
        """
        return dict(json.loads(self.record.read_bytes())) if self.record.is_file() else {}

    def mistakes(self) -> list[Mistake]:
        """The named mistakes; none in a student edition."""
        if self.solution is None or not (self.solution / "mistakes.py").is_file():
            return []
        path = self.solution / "mistakes.py"
        found = getattr(load_module(path, f"course.{self.slug}.mistakes"), "MISTAKES", None)
        if not isinstance(found, list | tuple) or not all(isinstance(mistake, Mistake) for mistake in found):
            raise CourseError("course.no_mistakes", file=path)
        return list(found)

    # ---- what must be true of the folders, without running anything

    def defects(self) -> Iterator[CourseError]:
        """Every defect that shows without running the exercise: missing files and texts, a stub that has drifted."""
        try:
            yield from self._text_defects()
        except CourseError as error:
            yield error
        for name in (self.module, "properties.py", *LESSONS.values()):
            if not (self.folder / name).is_file():
                yield CourseError("course.file_missing", file=self.folder / name)
        if self.solution is not None:
            yield from self._solution_defects(self.solution)

    def _text_defects(self) -> Iterator[CourseError]:
        path = self.folder / "exercise.toml"
        for lang in LANGUAGES:
            for section in ("title", "summary"):
                if not self.texts.get(section, {}).get(lang):
                    yield CourseError("course.text_missing", file=path, what=f"[{section}] {lang}")
            for place, hint in enumerate(self.texts.get("hints", ()), start=1):
                if not hint.get(lang):
                    yield CourseError("course.text_missing", file=path, what=f"[[hints]] {place} {lang}")
            for place, question in enumerate(self.quiz(lang), start=1):
                yield from _question_defects(question, path, f"[[quiz]] {place} ({lang})")
        if len(self.texts.get("hints", ())) != 3:
            yield CourseError("course.three_hints", file=path, found=len(self.texts.get("hints", ())))
        if not self.texts.get("quiz"):
            yield CourseError("course.text_missing", file=path, what="[[quiz]]")

    def _solution_defects(self, solution: Path) -> Iterator[CourseError]:
        if not (solution / "mistakes.py").is_file():
            yield CourseError("course.file_missing", file=solution / "mistakes.py")
        try:
            if (self.folder / self.module).is_file() and self.stub != self.stub_from_reference():
                yield CourseError("course.stub_drifted", file=self.folder / self.module)
        except CourseError as error:
            yield error


def _question_defects(question: Question, path: Path, where: str) -> Iterator[CourseError]:
    if not question.text or not question.explanation:
        yield CourseError("course.text_missing", file=path, what=f"{where} question, explain")
    if question.kind not in ("number", "choice", "shape"):
        yield CourseError("course.quiz_kind", file=path, where=where, kind=question.kind)
    elif question.kind == "choice" and sum(question.accepts(choice) for choice in question.choices) != 1:
        yield CourseError("course.quiz_answer", file=path, where=where, answer=question.answer)
    elif not question.answer:
        yield CourseError("course.text_missing", file=path, what=f"{where} answer")


@dataclass(frozen=True)
class Course:
    """The exercises of one course folder, in order."""

    folder: Path
    exercises: tuple[Exercise, ...]

    @classmethod
    def open(cls, folder: Path | str | None = None) -> Course:
        """The course at `folder`, else at $GRADE_COURSE, else the one that comes with the program."""
        chosen = Path(folder or os.environ.get("GRADE_COURSE") or _packaged())
        if not (chosen / "exercises").is_dir():
            raise CourseError("course.no_course", folder=chosen)
        exercises = tuple(
            Exercise(path.name, path, chosen / "solutions" / path.name if _has_solution(chosen, path.name) else None)
            for path in sorted((chosen / "exercises").iterdir(), key=_order)
            if path.is_dir() and FOLDER_NAME.fullmatch(path.name)
        )
        if not exercises:
            raise CourseError("course.empty_course", folder=chosen / "exercises")
        return cls(chosen, exercises)

    def find(self, word: str) -> Exercise:
        """The exercise that `ex4`, `ex04`, `4`, `ex04_causal_mask` or `causal_mask` means."""
        wanted = re.sub(r"[-\s]+", "_", word.strip().lower().removesuffix(".py").rstrip("/\\"))
        for exercise in self.exercises:
            if wanted in _spellings(exercise.slug):
                return exercise
        number = re.fullmatch(r"(?:ex)?_?0*(\d+)", wanted)
        if number:
            for exercise in self.exercises:
                if int(exercise.id[2:]) == int(number[1]):
                    return exercise
        close = difflib.get_close_matches(wanted, [name for e in self.exercises for name in _spellings(e.slug)], n=1)
        if close and not number:
            meant = next(e.slug for e in self.exercises if close[0] in _spellings(e.slug))
            raise UnknownExercise("course.unknown_exercise_meant", word=word, meant=meant)
        known = f"{self.exercises[0].id} .. {self.exercises[-1].id}"
        raise UnknownExercise("course.unknown_exercise", word=word, known=known)

    def after(self, exercise: Exercise) -> Exercise | None:
        """The exercise that comes next, None after the last."""
        place = self.exercises.index(exercise) + 1
        return self.exercises[place] if place < len(self.exercises) else None


def _order(path: Path) -> tuple[int, str]:
    match = FOLDER_NAME.fullmatch(path.name)
    return (int(match[1]) if match else 0, path.name)


def _spellings(slug: str) -> tuple[str, str, str]:
    number, name = slug.split("_", 1)
    return (slug, number, name)


def _has_solution(course: Path, slug: str) -> bool:
    return (course / "solutions" / slug / f"{slug}.py").is_file()


def _packaged() -> Path:
    """`grader/course` in a wheel, the repository's top level in a checkout."""
    here = Path(__file__).resolve().parent
    return here / "course" if (here / "course" / "exercises").is_dir() else here.parent


# ---- the stub


def stub_from_reference(source: str, exercise_id: str, where: str = "") -> str:
    """The reference with each block between the two markers replaced by one `raise NotImplementedError(...)`."""
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    stub: list[str] = []
    begin: int | None = None
    for number, line in enumerate(lines, start=1):
        if line.strip() == BEGIN and begin is None:
            begin = number
            indent = line[: len(line) - len(line.lstrip())]
            name = _function_around(tree, number)
            stub.append(f'{indent}raise NotImplementedError("{exercise_id}: {name} is not implemented yet")\n')
        elif line.strip() == END and begin is not None:
            begin = None
        elif line.strip() in (BEGIN, END):
            raise CourseError("course.markers", file=where, line=number)
        elif begin is None:
            stub.append(line)
    if begin is not None:
        raise CourseError("course.markers", file=where, line=begin)
    return "".join(stub)


def without_markers(source: str) -> str:
    """The reference as a learner reads it."""
    return "".join(line for line in source.splitlines(keepends=True) if line.strip() not in (BEGIN, END))


def _function_around(tree: ast.Module, line: int) -> str:
    """The dotted name of the innermost function or class around `line`, such as `LayerNorm.forward`."""
    names: list[str] = []
    nodes: list[ast.stmt] = list(tree.body)
    while nodes:
        node = nodes.pop()
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if named and node.lineno <= line <= (node.end_lineno or node.lineno):
            names.append(node.name)  # type: ignore[attr-defined]
            nodes = list(node.body)  # type: ignore[attr-defined]
    return ".".join(names) or "this part"


def defined_names(tree: ast.Module) -> tuple[str, ...]:
    """The public functions and classes that a file defines at its top level, in its order."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_"))
