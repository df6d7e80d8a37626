"""`grade`: commands and exit codes, no logic.

Exit codes: 0 all passed, 1 not all, 2 usage or nothing found, 3 our own fault, 4 isolation was required and is not to
be had. Nothing heavy is imported before a command runs, so that `--help` is quick; every sentence stands in messages/.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader import __version__, prelude
from grader.messages import LANGUAGES, locale_language, text

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from grader.batch import Batch, Setting, Which
    from grader.exercises import Course, Exercise
    from grader.gradebook import Gradebook
    from grader.grading import Grader
    from grader.intake import HandIn
    from grader.isolation import Mode
    from grader.results import PropertyResult, Report
    from grader.running import Run
    from grader.submissions import Problem, Submission

ALL_PASSED, NOT_ALL, USAGE, OUR_FAULT, NOT_ISOLATED = range(5)
INTERRUPTED = 130
NAMED = 3  # of those who are gone


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits. Whatever goes wrong ends in one sentence and an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    lang = wanted_language(words)
    prelude.begin()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(_run(words, lang))


def wanted_language(words: Sequence[str]) -> str:
    """`--lang` wherever it stands, else the system's language."""
    for place, word in enumerate(words):
        value = word.removeprefix("--lang=") if word.startswith("--lang=") else ""
        if word == "--lang" and place + 1 < len(words):
            value = words[place + 1]
        if value in LANGUAGES:
            return value
    return locale_language()


def _run(words: list[str], lang: str) -> int:
    speak(cli, "grade", lang)
    try:
        return int(cli.main(words, prog_name="grade", standalone_mode=False, obj=lang) or 0)
    except click.ClickException as error:
        click.echo(sentence_for(error, lang), err=True)
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:
        return _failed(error, lang)


def _failed(error: Exception, lang: str) -> int:
    """The course's defect in a sentence; anything else is ours: a sentence, and the details in a file."""
    from grader.exercises import CourseError, UnknownExercise

    if isinstance(error, CourseError):
        click.echo(error.sentence(lang), err=True)
        return USAGE if isinstance(error, UnknownExercise) or error.key == "course.no_course" else OUR_FAULT
    from grader.isolation import Unavailable

    if isinstance(error, Unavailable):
        click.echo(error.sentence(lang), err=True)
        return NOT_ISOLATED
    with tempfile.NamedTemporaryFile(
        "w", prefix="grade-fault-", suffix=".txt", delete=False, encoding="utf-8"
    ) as details:
        details.write(f"grade {__version__}, Python {sys.version}\n{traceback.format_exc()}")
    what = f"{type(error).__name__}: {error}"[:300]
    click.echo(text("cli.our_fault", lang, error=what, file=details.name), err=True)
    return OUR_FAULT


class Refusal(click.ClickException):
    """A sentence of ours that ends the command with exit code 2."""

    exit_code = USAGE

    def __init__(self, key: str, /, **params: object) -> None:
        super().__init__(text(key, _lang(), **params))


def sentence_for(error: click.ClickException, lang: str) -> str:
    """Click's complaints in the learner's language, with the way to the help."""
    if isinstance(error, Refusal):
        return error.message
    if isinstance(error, click.NoSuchOption):
        meant = ", ".join(error.possibilities or ())
        key = "cli.no_such_option_meant" if meant else "cli.no_such_option"
        said = text(key, lang, option=error.option_name, meant=meant)
    elif isinstance(error, click.MissingParameter):
        name = error.param.make_metavar(error.ctx) if error.param and error.ctx else ""
        said = text("cli.missing_argument", lang, name=name)
    elif isinstance(error, click.BadParameter):
        name = error.param.opts[0] if error.param else ""
        said = text("cli.bad_value", lang, name=name, reason=error.message)
    else:
        said = text("cli.bad_usage", lang, reason=error.message)
    return said + "\n" + text("cli.see_help", lang)


# ---- how the command line looks


class Formatter(click.HelpFormatter):
    """Headings in the learner's language."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(" ".join(prog.split()), args, prefix=text("cli.heading.usage", _lang()))

    def section(self, name: str) -> Any:
        known = {"Options": "cli.heading.options", "Commands": "cli.heading.commands"}
        return super().section(text(known[name], _lang()) if name in known else name)


class Context(click.Context):
    formatter_class = Formatter


class Grade(click.Group):
    """A group in which a word that is no command is an exercise: `grade ex04` is `grade one ex04`."""

    context_class = Context

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "", self.commands["one"], args
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of a learner's way, not of the alphabet


click.Command.context_class = Context


def speak(command: click.Command, path: str, lang: str) -> None:
    """Gives a command, its options and its subcommands their help in one language."""
    key = path.replace("grade ", "").replace(" ", "_")
    command.help = text(f"cli.help.{key}", lang)
    command.short_help = command.help.split("\n")[0]
    command.options_metavar = text("cli.heading.options_metavar", lang)
    for option in command.get_params(click.Context(command)):
        if isinstance(option, click.Option):
            option.help = text(f"cli.option.{str(option.name).removeprefix('_click_default_')}", lang)
    if isinstance(command, click.Group):
        command.subcommand_metavar = text("cli.heading.command_metavar", lang)
        for name, child in command.commands.items():
            speak(child, f"{path} {name}", lang)


def _lang() -> str:
    context = click.get_current_context(silent=True)
    return str(context.find_root().obj) if context and context.find_root().obj else "en"


lang_option = click.option("--lang", type=click.Choice(LANGUAGES), expose_value=False)
course_option = click.option("--course", "course_folder", metavar="DIR", envvar="GRADE_COURSE")
report_option = click.option("--report", "reports", metavar="FORMAT:FILE", multiple=True)
isolation_option = click.option("--isolation", type=click.Choice(["best", "require"]), default="best")
select_option = click.option("-k", "select", metavar="EXPR", default="")
path_argument = click.argument("path", type=click.Path(path_type=Path), default=Path(), metavar="[PATH]")
exercise_argument = click.argument("exercise", metavar="EXERCISE")


# ---- grading


@click.group(cls=Grade, invoke_without_command=True)
@click.version_option(__version__, "--version", message="%(version)s")
@lang_option
@course_option
@click.pass_context
def cli(ctx: click.Context, course_folder: str | None) -> int | None:
    if course_folder:
        os.environ["GRADE_COURSE"] = course_folder
    return _standing(Path()) if ctx.invoked_subcommand is None else None


@cli.command("one", hidden=True)
@exercise_argument
@path_argument
@report_option
@select_option
@isolation_option
@click.option("--debug", is_flag=True)
@lang_option
@course_option
def one(
    exercise: str,
    path: Path,
    reports: tuple[str, ...],
    select: str,
    isolation: Mode,
    debug: bool,
    course_folder: str | None,
) -> int:
    course = _course(course_folder)
    chosen = course.find(exercise)
    wanted = parse_reports(reports)
    found = _read(chosen, path, course)
    if debug:
        return _debug(chosen, found, select)
    with _grader(course, isolation) as grader:
        report = grader.grade(chosen, found, select)
    if select and hasattr(found, "files") and not report.max_score:
        raise Refusal("cli.nothing_selected", select=select, names=", ".join(p.name for p in report.properties))
    show(report, wanted, only_run=bool(select))
    return exit_code(report, found)


@cli.command("all")
@path_argument
@report_option
@isolation_option
@lang_option
@course_option
def grade_all(path: Path, reports: tuple[str, ...], isolation: Mode, course_folder: str | None) -> int:
    course = _course(course_folder)
    wanted = parse_reports(reports, several=True)
    codes = []
    with _grader(course, isolation) as grader:
        for exercise in course.exercises:
            found = _read(exercise, path, course)
            if not _absent(found):
                codes.append(_one_of_all(grader, exercise, found, wanted))
    if not codes:
        raise Refusal("cli.nothing_found", path=path)
    return max(codes)


def _one_of_all(
    grader: Grader, exercise: Exercise, found: Submission | Problem, wanted: Sequence[tuple[str, str]]
) -> int:
    """Grades and shows one of several. A defect of this exercise does not keep the others from being graded."""
    from grader.exercises import CourseError

    try:
        report = grader.grade(exercise, found)
    except CourseError as error:
        click.echo(error.sentence(_lang()), err=True)
        return OUR_FAULT
    show(report, wanted)
    return exit_code(report, found)


def _standing(path: Path) -> int:
    """Every exercise with its score so far, and the one that comes next."""
    course, lang = _course(None), _lang()
    found = {exercise: _read(exercise, path, course) for exercise in course.exercises}
    todo = []
    with _grader(course, "best") as grader:
        for exercise, submission in found.items():
            score, done = _score(grader, exercise, submission)
            click.echo(f"{'✓' if done else ' '} {exercise.slug:<24} {score:>12}  {exercise.title(lang)}")
            todo += [] if done else [exercise]
    if all(_absent(submission) for submission in found.values()):
        click.echo("\n" + text("cli.standing.begin", lang))
        return USAGE
    if not todo:
        click.echo("\n" + text("cli.standing.done", lang))
        return ALL_PASSED
    texts = {"id": todo[0].id, "title": todo[0].title(lang), "summary": todo[0].summary(lang)}
    click.echo("\n" + text("cli.standing.next", lang, **texts))
    return NOT_ALL


def _score(grader: Grader, exercise: Exercise, submission: Submission | Problem) -> tuple[str, bool]:
    """How far one exercise is, in a word, and whether it is done. One that was not begun is not run."""
    from grader.exercises import CourseError
    from grader.submissions import Submission
    from grader.workspace import begun

    if _absent(submission):
        return text("cli.standing.absent", _lang()), False
    if isinstance(submission, Submission) and not begun(exercise, submission):
        return text("cli.standing.not_begun", _lang()), False
    try:
        report = grader.grade(exercise, submission)
    except CourseError as error:
        return error.sentence(_lang()), False
    return f"{report.score:g} / {report.max_score:g}", exit_code(report, submission) == ALL_PASSED


@cli.command("watch")
@click.argument("exercise", required=False, metavar="[EXERCISE]")
@path_argument
@isolation_option
@lang_option
@course_option
def watch(exercise: str | None, path: Path, isolation: Mode, course_folder: str | None) -> int:
    from grader.workspace import saves

    course = _course(course_folder)
    chosen = [course.find(exercise)] if exercise else list(course.exercises)
    before = {each.slug: _read(each, path, course) for each in chosen}
    click.echo(text("cli.watching", _lang(), path=path.resolve()))
    with _grader(course, isolation) as grader:
        for _ in saves(path):
            for each in chosen:
                found = _read(each, path, course)
                if found != before[each.slug] and not _absent(found):
                    show(grader.grade(each, found), [])
                before[each.slug] = found
    return ALL_PASSED


def _course(folder: str | None) -> Course:
    from grader.exercises import Course

    return Course.open(folder)


def _read(exercise: Exercise, path: Path, course: Course) -> Submission | Problem:
    from grader.submissions import read_submission

    return read_submission(exercise, path.resolve() if path.is_dir() else path, course)


def _absent(found: Submission | Problem) -> bool:
    return bool(getattr(found, "absent", False))


def _grader(course: Course, isolation: Mode) -> Grader:
    from grader.grading import Grader

    return Grader(course, _lang(), isolation)


def _debug(exercise: Exercise, found: Submission | Problem, select: str) -> int:
    from grader.debugging import debug
    from grader.submissions import Problem

    if isinstance(found, Problem):
        click.echo(found.sentence(_lang()), err=True)
        return USAGE
    failed = list(debug(exercise, found, _lang(), select))
    for name, message in failed:
        click.echo(f"✗ {name}\n  {message}")
    click.echo(text("cli.debug.end", _lang(), count=len(failed)))
    return NOT_ALL if failed else ALL_PASSED


def exit_code(report: Report, found: Submission | Problem) -> int:
    """What `grade` answers for one report."""
    from grader.results import Verdict

    verdicts = {report.verdict, *(result.verdict for result in report.properties)}
    if Verdict.GRADER_ERROR in verdicts:
        return OUR_FAULT
    if not hasattr(found, "files") and report.verdict is Verdict.MISSING:
        return USAGE
    return ALL_PASSED if report.verdict is Verdict.PASSED else NOT_ALL


# ---- reports


def parse_reports(words: Iterable[str], several: bool = False) -> list[tuple[str, str]]:
    """`html:out.html` -> ("html", "out.html"). With `several`, the file name must have a place for {exercise}."""
    from grader.reporters import REPORTERS

    wanted = []
    for word in words:
        kind, colon, file = word.partition(":")
        if kind not in REPORTERS or not colon or not file:
            raise Refusal("cli.report_form", word=word, formats=", ".join(REPORTERS))
        if several and file != "-" and "{exercise}" not in file:
            raise Refusal("cli.report_place", word=word)
        wanted.append((kind, file))
    return wanted


def show(report: Report, wanted: Sequence[tuple[str, str]], only_run: bool = False) -> None:
    """Writes the reports that were asked for, else an HTML one, and the text for the terminal.

    With `only_run`, the text leaves out what was not selected.
    """
    import msgspec

    from grader.reporters import REPORTERS
    from grader.reporters.terminal import options_for, render
    from grader.workspace import report_folder

    files = wanted or [("html", str(report_folder() / f"{report.exercise.split('_')[0]}.html"))]
    for kind, file in files:
        _save(REPORTERS[kind](report), file.replace("{exercise}", report.exercise.split("_")[0]))
    if any(file == "-" for _, file in files):
        return
    page = next((file for kind, file in files if kind == "html"), "")
    options = options_for(sys.stdout, os.environ, shutil.get_terminal_size()[0])
    shown = page.replace("{exercise}", report.exercise.split("_")[0])
    if only_run:
        report = msgspec.structs.replace(report, properties=_run_ones(report))
    click.echo(render(report, saved_at=shown, **options), nl=False, color=True)


def _run_ones(report: Report) -> list[PropertyResult]:
    from grader.results import Verdict

    return [result for result in report.properties if result.verdict is not Verdict.NOT_RUN]


def _save(content: str, file: str) -> None:
    from grader.workspace import write

    if file == "-":
        click.echo(content)
        return
    try:
        write(Path(file), content)
    except OSError as error:
        raise Refusal("cli.cannot_write", file=file, error=error.strerror or str(error)) from None


# ---- a learner's way through the course


@cli.command("init")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")
@click.option("--force", is_flag=True)
@lang_option
@course_option
def init(folder: Path, exercises: tuple[str, ...], force: bool, course_folder: str | None) -> int:
    from grader.workspace import begin

    course, lang = _course(course_folder), _lang()
    chosen = [course.find(word) for word in exercises] or course.exercises
    outcomes = {"written": 0, "same": 0, "kept": 0}
    try:
        for path, outcome in begin(chosen, folder, force):
            outcomes[outcome] += 1
            if outcome == "kept":
                click.echo(text("cli.init.kept", lang, file=path))
    except OSError as error:
        raise Refusal("cli.cannot_write", file=folder, error=error.strerror or str(error)) from None
    click.echo(text("cli.init.done", lang, folder=folder, **outcomes))
    click.echo(text("cli.init.next", lang, folder=folder, id=chosen[0].id, slug=chosen[0].slug))
    return ALL_PASSED


@cli.command("lesson")
@exercise_argument
@lang_option
@course_option
def lesson(exercise: str, course_folder: str | None) -> int:
    content = _course(course_folder).find(exercise).lesson(_lang())
    if not sys.stdout.isatty():
        click.echo(content)
        return ALL_PASSED
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(content))
    return ALL_PASSED


@cli.command("hint")
@exercise_argument
@click.argument("number", type=click.IntRange(min=1), default=1, metavar="[NUMBER]")
@lang_option
@course_option
def hint(exercise: str, number: int, course_folder: str | None) -> int:
    chosen, lang = _course(course_folder).find(exercise), _lang()
    hints = chosen.hints(lang)
    if number > len(hints):
        raise Refusal("cli.hint.no_more", id=chosen.id, count=len(hints))
    click.echo(text("cli.hint.head", lang, number=number, count=len(hints)) + "\n" + hints[number - 1].strip())
    if number < len(hints):
        click.echo("\n" + text("cli.hint.more", lang, id=chosen.id, number=number + 1))
    return ALL_PASSED


@cli.command("quiz")
@exercise_argument
@lang_option
@course_option
def quiz(exercise: str, course_folder: str | None) -> int:
    chosen, lang = _course(course_folder).find(exercise), _lang()
    questions = chosen.quiz(lang)
    right = 0
    for number, question in enumerate(questions, start=1):
        click.echo(f"{number}/{len(questions)}  {question.text.strip()}")
        for letter, choice in zip("abcdefghij", question.choices, strict=False):
            click.echo(f"  {letter}) {choice}")
        accepted = question.accepts(click.prompt(text("cli.quiz.answer", lang), prompt_suffix=" "))
        right += accepted
        verdict = "cli.quiz.right" if accepted else "cli.quiz.wrong"
        click.echo(text(verdict, lang, answer=question.shown_answer) + "\n" + question.explanation.strip() + "\n")
    click.echo(text("cli.quiz.end", lang, right=right, count=len(questions)))
    return ALL_PASSED if right == len(questions) else NOT_ALL


@cli.command("solution")
@exercise_argument
@click.option("--yes", is_flag=True)
@lang_option
@course_option
def solution(exercise: str, yes: bool, course_folder: str | None) -> int:
    from grader.exercises import without_markers

    chosen, lang = _course(course_folder).find(exercise), _lang()
    if chosen.reference is None:
        raise Refusal("cli.solution.none", id=chosen.id)
    if not yes and not (sys.stdin.isatty() and click.confirm(text("cli.solution.sure", lang, id=chosen.id))):
        raise Refusal("cli.solution.not_yet", id=chosen.id)
    click.echo(without_markers(chosen.reference), nl=False)
    return ALL_PASSED


# ---- for those who write and run courses


@cli.command("batch")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="OUT")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N")
@click.option("--shard", "part", metavar="I/N", default="1/1")
@click.option("--only", multiple=True, metavar="NAME")
@click.option("--exercise", "words", multiple=True, metavar="EXERCISE")
@click.option("--failed", is_flag=True)
@click.option("--changed", is_flag=True)
@click.option("--regrade", is_flag=True)
@click.option("--dry-run", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--isolation", type=click.Choice(["best", "require"]), default="require", show_default=True)
@click.option("--scheduler", metavar="ADDRESS")
@lang_option
@course_option
def batch(
    folder: Path,
    out: Path | None,
    jobs: int | None,
    part: str,
    only: tuple[str, ...],
    words: tuple[str, ...],
    failed: bool,
    changed: bool,
    regrade: bool,
    dry_run: bool,
    as_json: bool,
    isolation: Mode,
    scheduler: str | None,
    course_folder: str | None,
) -> int:
    from grader import batch as batches
    from grader.crew import usable_cores
    from grader.running import Run

    if regrade + failed + changed > 1:
        raise Refusal("batch.which")
    if out is None and not dry_run:
        raise Refusal("batch.no_out", folder=folder)
    course, lang = _course(course_folder), _lang()
    chosen = [course.find(word) for word in words] or list(course.exercises)
    everyone = _hand_ins(folder, course)
    _say_what_is_passed_over(folder, out)
    found = _named(everyone, only)
    if dry_run:
        _show_recognised(found, chosen, course, as_json)
    if out is None or dry_run:
        return ALL_PASSED
    index, count = _part(part)
    tasks = batches.shard(batches.plan(found, chosen, course, lang), index, count)
    if not tasks and count == 1:
        raise Refusal("batch.nothing", folder=folder)
    which: Which = "all" if regrade else "failed" if failed else "changed" if changed else "new"
    setting = batches.Setting(course.folder.resolve(), lang, isolation)
    with _kept(out, setting) as kept:
        run = Run(kept, tasks, which, lang, as_json)
        code = _ended(run, out, lambda: run.grade(_executor(scheduler, jobs or len(usable_cores()))))
        if code != INTERRUPTED:
            _say_who_is_gone(everyone, kept.book, folder, as_json)
        return code


@cli.command("merge")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="OUT...")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="OUT", required=True)
@lang_option
@course_option
def merge(folders: tuple[Path, ...], out: Path, course_folder: str | None) -> int:
    from grader.batch import Setting
    from grader.gradebook import UnknownBook

    course, lang = _course(course_folder), _lang()
    with _kept(out, Setting(course.folder.resolve(), lang, "best")) as kept:
        try:
            kept.merge(folders)
        except UnknownBook as error:
            raise Refusal("batch.no_book", file=error.path, reason=error.reason) from None
        kept.finish()
        click.echo(text("batch.merged", lang, count=sum(1 for _ in kept.book.all_rows()), out=out))
    return ALL_PASSED


def _hand_ins(folder: Path, course: Course) -> list[HandIn]:
    from grader.files import Refused
    from grader.intake import hand_ins

    try:
        return hand_ins(folder, course)
    except Refused as refused:
        raise Refusal("batch.refused", reason=refused.sentence(_lang())) from None


def _say_what_is_passed_over(folder: Path, out: Path | None) -> None:
    """Results of other runs, below sections too: it may have been a student who put them there."""
    from grader.gradebook import DATABASE, is_database

    books = [book.parent for depth in range(1, 6) for book in folder.glob("*/" * depth + DATABASE) if is_database(book)]
    names = [str(place.relative_to(folder)) for place in books if out is None or place.resolve() != out.resolve()]
    if names:
        click.echo(text("batch.passed_over", _lang(), folder=folder, names=", ".join(sorted(names))), err=True)


def _named(found: list[HandIn], only: Sequence[str]) -> list[HandIn]:
    from grader.batch import named

    chosen, unknown = named(found, only) if only else (found, [])
    if unknown:
        raise Refusal("batch.nobody", names=", ".join(unknown))
    return chosen


def _show_recognised(found: Sequence[HandIn], exercises: list[Exercise], course: Course, as_json: bool) -> None:
    """For a person, each layout is said once, above all that were found by it."""
    from grader.running import dry_run_lines

    lang = _lang()
    parts = {layout: [each for each in found if each.layout == layout] for layout in sorted({h.layout for h in found})}
    for layout, theirs in {"": found}.items() if as_json else parts.items():
        if not as_json:
            click.echo(text("batch.layout", lang, layout=text(f"intake.layout.{layout}", lang)))
        for line in dry_run_lines(theirs, exercises, course, lang, as_json):
            click.echo(line)


def _say_who_is_gone(everyone: Iterable[HandIn], book: Gradebook, folder: Path, as_json: bool) -> None:
    """Names a few; beside JSON lines it is said where people read."""
    from grader.batch import not_among

    gone = not_among(everyone, book)
    if gone:
        names = ", ".join(gone[:NAMED]) + (", ..." if len(gone) > NAMED else "")
        click.echo(text("batch.gone", _lang(), count=len(gone), folder=folder, names=names), err=as_json)


def _part(word: str) -> tuple[int, int]:
    """`2/8` -> (2, 8)."""
    index, slash, count = word.partition("/")
    if not slash or not index.isdecimal() or not count.isdecimal() or not 1 <= int(index) <= int(count):
        raise Refusal("batch.shard", word=word)
    return int(index), int(count)


def _kept(out: Path, setting: Setting) -> Batch:
    from grader.batch import Batch, Busy
    from grader.gradebook import UnknownBook

    try:
        return Batch(out, setting)
    except Busy:
        raise Refusal("batch.busy", out=out) from None
    except UnknownBook as error:
        raise Refusal("batch.no_book", file=error.path, reason=error.reason) from None
    except OSError as error:
        raise Refusal("cli.cannot_write", file=out, error=error.strerror or str(error)) from None


def _executor(scheduler: str | None, jobs: int) -> Executor:
    from grader.crew import Cluster, Crew

    if scheduler is None:
        return Crew(jobs)
    try:
        return Cluster(scheduler)
    except ImportError:
        raise Refusal("batch.no_dask") from None
    except (OSError, ValueError) as error:
        raise Refusal("batch.no_scheduler", address=scheduler, error=error) from None


def _ended(run: Run, out: Path, grade: Callable[[], bool]) -> int:
    """How a batch ended. Whatever stopped it, what was graded is kept, and it can go on."""
    import sqlite3

    from grader.batch import OtherCourse

    try:
        with _stopped_as_by_ctrl_c():
            return ALL_PASSED if grade() else OUR_FAULT
    except KeyboardInterrupt:
        run.stopped()
        with contextlib.suppress(OSError):  # the terminal is gone
            click.echo("\n" + text("batch.interrupted", _lang(), done=run.done, total=run.total, out=out), err=True)
        return INTERRUPTED
    except OtherCourse as error:
        raise Refusal("batch.other_course", folder=error) from None
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        click.echo(text("batch.cannot_keep", _lang(), out=out, error=reason, done=run.done, total=run.total), err=True)
        return OUR_FAULT


@contextlib.contextmanager
def _stopped_as_by_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise KeyboardInterrupt, so that the cursor comes back and the gradebook is written.

    A signal that is ignored stays so: that is what nohup is for.
    """
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [each for each in known if signal.getsignal(each) is signal.SIG_DFL]
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    for each in taken:
        signal.signal(each, stop)
    try:
        yield
    except OSError:
        if not came:
            raise
        raise KeyboardInterrupt from None  # the terminal itself is gone
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


@cli.command("selftest")
@click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")
@lang_option
@course_option
def selftest(exercises: tuple[str, ...], course_folder: str | None) -> int:
    from grader.selftest import every, table

    course = _course(course_folder)
    held = True
    chosen = [course.find(word) for word in exercises] or course.exercises
    for result in every(course.folder, [exercise.slug for exercise in chosen]):
        click.echo(table(result) + "\n")
        held = held and not any(True for _ in result.broken())
    return ALL_PASSED if held else NOT_ALL


@cli.group("author", cls=click.Group)
@lang_option
def author() -> None: ...


@author.command("stubs")
@click.option("--check", is_flag=True)
@lang_option
@course_option
def stubs(check: bool, course_folder: str | None) -> int:
    exercises = [exercise for exercise in _course(course_folder).exercises if exercise.solution]
    return _made({e.folder / e.module: e.stub_from_reference() for e in exercises}, check)


@author.command("cases")
@click.option("--check", is_flag=True)
@lang_option
@course_option
def cases(check: bool, course_folder: str | None) -> int:
    from grader.bench import record_of

    return _made({e.record: record_of(e) for e in _course(course_folder).exercises}, check)


def _made(files: Mapping[Path, str], check: bool) -> int:
    """Write the files that are made from others; with `check` only say which of them are not what they should be."""
    from grader.workspace import write

    changed = 0
    for path, made in files.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != made:
            changed += 1
            click.echo(text("cli.made.differs" if check else "cli.made.written", _lang(), file=path))
            if not check:
                write(path, made)
    click.echo(text("cli.made.end", _lang(), changed=changed))
    return NOT_ALL if check and changed else ALL_PASSED


@cli.command("doctor")
@lang_option
@course_option
def doctor(course_folder: str | None) -> int:
    from grader.doctor import findings

    good = True
    for name, value, fine in findings(course_folder, _lang()):
        good = good and fine
        click.echo(f"{'✓' if fine else '✗'} {name:<18} {value}")
    return ALL_PASSED if good else OUR_FAULT
