"""A class in one command: nothing lost, nothing graded twice, whatever is killed and whenever."""

import contextlib
import csv
import errno
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from concurrent import futures
from importlib.util import find_spec
from pathlib import Path

import fakes
import msgspec
import pytest

from grader import batch as batches
from grader.batch import DATABASE, Batch, Busy, Setting, graded, named, pending, plan, shard
from grader.cli import main
from grader.crew import Cluster, Crew, Killed, usable_cores
from grader.exercises import Course
from grader.files import Gathered
from grader.gradebook import Gradebook
from grader.gradescope import Person
from grader.intake import HandIn, _told_apart, hand_ins
from grader.messages import text
from grader.results import Report, Verdict
from grader.turns import Shared
from tests.classes import entries_of

HERE = Path(__file__).parent
TINY = fakes.TINY
REFERENCE = (TINY / "solutions/ex01_scores/ex01_scores.py").read_text()
MAIN = "ex01_scores.py"
KILLS = 50


@pytest.fixture
def fake_log(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_LOG", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    return tmp_path / fakes.LOG


def a_class(folder: Path, **sources: str) -> Path:
    for name, source in sources.items():
        (folder / name).mkdir(parents=True)
        (folder / name / MAIN).write_text(source)
    return folder


def grade(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


def rows(out: Path) -> dict[str, dict[str, str]]:
    with (out / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


# ---- killed at any moment


def life(out: Path, count: int) -> subprocess.Popen:
    command = [sys.executable, "-W", "error", str(HERE / "fakes.py"), str(out), str(count), "1"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def settled(out: Path) -> set[str]:
    """Those in the book; each has both of its reports, whole."""
    if not (out / DATABASE).exists():
        return set()
    db = sqlite3.connect(out / DATABASE)
    with contextlib.closing(db):
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return set()
        folders = [row[0] for row in db.execute("SELECT folder FROM results")]
    for folder in folders:
        json.loads((out / f"reports/{folder}/ex01_scores.json").read_text())
        assert (out / f"reports/{folder}/ex01_scores.html").read_text().endswith("</html>")
    return set(folders)


def log_of(out: Path) -> list[str]:
    return (out / fakes.LOG).read_text().split() if (out / fakes.LOG).exists() else []


def test_killed_at_fifty_moments_it_misses_nothing_and_grades_nothing_twice(tmp_path):
    chance, count, before, logged = random.Random(5), 700, set(), 0
    for _ in range(KILLS):
        running = life(tmp_path, count)
        for _ in range(chance.randrange(12)):  # the first line is there before the first result
            running.stdout.readline()
        time.sleep(chance.random() * 0.05)
        running.kill()
        running.communicate()
        assert not before & set(log_of(tmp_path)[logged:])
        before, logged = settled(tmp_path), len(log_of(tmp_path))
    assert 0 < len(before) < count
    last = life(tmp_path, count)
    _, said = last.communicate(timeout=120)
    assert last.returncode == 0, said
    assert not before & set(log_of(tmp_path)[logged:])
    assert settled(tmp_path) == {f"s{number:03}" for number in range(count)}
    assert sorted(log_of(tmp_path)[logged:]) == sorted(settled(tmp_path) - before)
    assert not [path for path in tmp_path.rglob(".*") if batches.HALF_WRITTEN.fullmatch(path.name)]


def test_no_process_survives_the_killed_parent(tmp_path):
    running = life(tmp_path, 3000)
    for _ in range(5):
        running.stdout.readline()
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    if not children.exists():
        pytest.skip("the system does not list children")
    pids = children.read_text().split()
    running.kill()
    running.communicate()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_an_odd_hand_in_begins_no_exercise(tmp_path):
    """What cannot be read at all may be for any exercise; what a notebook has not is no sign of it either."""
    course = Course.open()
    cell = {"cell_type": "code", "source": course.find("ex04").reference, "outputs": []}
    odd = {
        "ben.7z": b"7z\xbc\xaf",
        "cara_ex04.py.txt": b"x",
        "dora/ex04.ipynb": json.dumps({"cells": [cell], "nbformat": 4}).encode(),
    }
    for name, content in odd.items():
        folder = tmp_path / name.split("/")[0].split(".")[0]
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
        alone = plan(hand_ins(folder, course), course.exercises, course, "en")
        assert {task.exercise for task in alone} >= {"ex04_causal_mask"}, name
        (folder / "anna").mkdir()
        (folder / "anna/ex04.py").write_text(course.find("ex04").reference)
        together = plan(hand_ins(folder, course), course.exercises, course, "en")
        assert {task.exercise for task in together} == {"ex04_causal_mask"}, name


def test_a_look_needs_no_folder_for_results_and_a_run_does(tmp_path, capfd):
    folder = a_class(tmp_path / "in", anna=REFERENCE)
    assert grade("batch", folder, "--dry-run", "--course", TINY) == 0
    assert "anna" in capfd.readouterr().out
    assert grade("batch", folder, "--course", TINY) == 2
    assert "--out" in capfd.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


# ---- a judge is killed


def test_one_that_kills_its_judge_is_given_up_after_three_times(tmp_path, fake_log):
    tasks = [fakes.task("a"), fakes.task("b", "dies"), fakes.task("c"), fakes.task("d"), fakes.task("e", "dies once")]
    with Batch(tmp_path, fakes.SETTING, fakes.step) as batch:
        crew = Crew(2)
        list(batch.run(tasks, crew))
        crew.shutdown()
        entries = {entry.student: entry for entry in entries_of(batch.book)}
    assert {name for name, entry in entries.items() if entry.verdict is Verdict.PASSED} == {"a", "c", "d", "e"}
    assert entries["b"].verdict is Verdict.GRADER_ERROR
    assert log_of(tmp_path).count("b") == batches.TRIES
    assert log_of(tmp_path).count("e") == 2
    assert [log_of(tmp_path).count(name) for name in "acd"] == [1, 1, 1]  # no innocent neighbour


def test_a_killed_process_is_replaced(tmp_path, fake_log):
    with Batch(tmp_path, fakes.SETTING, fakes.step) as batch:
        crew = Crew(1)
        for progress in batch.run([fakes.task(f"s{number}") for number in range(60)], crew):
            if progress.done in (5, 20):
                os.kill(crew.pids()[0], signal.SIGKILL)
        crew.shutdown()
        assert len(entries_of(batch.book)) == 60
    counts = [log_of(tmp_path).count(f"s{number}") for number in range(60)]
    assert set(counts) <= {1, 2}
    assert counts.count(2) <= 2


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no process can be kept to a core here")
def test_one_process_a_core_keeps_to_its_core_and_so_does_the_one_that_replaces_it():
    cores = usable_cores()
    crew, more = Crew(len(cores)), Crew(len(cores) + 1)
    try:
        assert sorted(kept_to(crew, len(cores))) == [[core] for core in cores]
        assert kept_to(more, len(cores) + 1) == [cores] * (len(cores) + 1)
        first = crew.pids()[0]
        running = crew.submit(time.sleep, 60)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(Killed):
            running.result(30)
        assert sorted(kept_to(crew, len(cores))) == [[core] for core in cores]
        assert first not in crew.pids()
    finally:
        crew.shutdown(cancel_futures=True)
        more.shutdown(cancel_futures=True)


def kept_to(crew: Crew, size: int) -> list[list[int]]:
    """The cores of each of a crew's processes, once all have begun."""
    while len(crew.pids()) < size:
        time.sleep(0.02)
    return [sorted(os.sched_getaffinity(pid)) for pid in crew.pids()]


def test_real_judges_and_zygotes_may_be_killed(tmp_path):
    if not Path("/proc/self/task").is_dir():
        pytest.skip("processes are found through /proc")
    sources = {f"s{number}": f"{REFERENCE}\n# {number}\n" for number in range(8)}
    course = Course.open(TINY)
    found = hand_ins(a_class(tmp_path / "in", **sources), course)
    tasks = plan(found, course.exercises, course, "en")
    with Batch(tmp_path / "out", Setting(TINY, "en", "best")) as batch:
        crew = Crew(1)
        for progress in batch.run(tasks, crew):
            judge = crew.pids()[0] if progress.done else 0
            if progress.done == 2:
                os.kill(judge, signal.SIGKILL)
            if progress.done == 5:
                (zygote,) = (pid for pid in children_of(judge) if "zygote" in command_of(pid))
                os.kill(zygote, signal.SIGKILL)
        crew.shutdown()
        entries = entries_of(batch.book)
    assert [entry.verdict for entry in entries] == [Verdict.PASSED] * 8


def children_of(pid: int) -> list[int]:
    lists = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for children in lists for child in children.split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()


# ---- what is written


def test_a_full_disk_stops_the_run_and_it_goes_on(tmp_path, fake_log, monkeypatch):
    write, room = batches.write, iter(range(5))

    def full(path, content):
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    tasks = [fakes.task(f"s{number}") for number in range(6)]
    crew = Crew(1)
    monkeypatch.setattr(batches, "write", full)
    with Batch(tmp_path, fakes.SETTING, fakes.step) as batch, pytest.raises(OSError, match="No space"):
        list(batch.run(tasks, crew))
    monkeypatch.undo()
    assert len(settled(tmp_path)) == 2
    with Batch(tmp_path, fakes.SETTING, fakes.step) as batch:
        assert len(pending(tasks, batch.book)) == 4
    crew.shutdown(cancel_futures=True)


def test_two_runs_never_keep_in_the_same_folder(tmp_path):
    with Batch(tmp_path, fakes.SETTING), pytest.raises(Busy):
        Batch(tmp_path, fakes.SETTING)


def test_a_report_that_is_gone_is_written_again_from_the_book(tmp_path):
    with Batch(tmp_path, fakes.SETTING) as batch:
        batch._keep(fakes.task("a"), fakes.report(name="a"), "<html></html>")
    (tmp_path / "reports/a/ex01_scores.html").write_text("")
    with Batch(tmp_path, fakes.SETTING):
        assert "</html>" in (tmp_path / "reports/a/ex01_scores.html").read_text()


def test_an_error_of_the_graders_own_leaves_grade_and_report(tmp_path):
    with Batch(tmp_path, fakes.SETTING) as batch:
        batch._keep(fakes.task("a"), fakes.report(80, Verdict.FAILED), "good")
        shown = batch._keep(fakes.task("a"), fakes.report(0, Verdict.GRADER_ERROR), "bad")
        assert shown.verdict is Verdict.GRADER_ERROR
        assert batch.book.entry("a", "ex01_scores").score == 80
    assert (tmp_path / "reports/a/ex01_scores.html").read_text() == "good"


# ---- which are graded


def test_what_is_graded_again(tmp_path):
    with Batch(tmp_path, fakes.SETTING) as batch:
        for name, score, verdict in (("good", 100, Verdict.PASSED), ("bad", 5, Verdict.FAILED)):
            batch._keep(fakes.task(name), fakes.report(score, verdict), "page")
        now = [fakes.task("good"), fakes.task("bad"), fakes.task("new")]
        upgraded = [fakes.task("good", key="k2"), fakes.task("bad", "y = 2\n", key="k2")]

        def names(tasks, which):
            return [task.student for task in pending(tasks, batch.book, which)]

        assert names(now, "new") == ["new"]
        assert names(now, "failed") == ["bad"]
        assert names(now, "all") == ["good", "bad", "new"]
        assert names(upgraded, "new") == ["good", "bad"]
        assert names(upgraded, "changed") == ["bad"]


def test_shards_divide_the_students_and_merge_into_the_same_gradebook(tmp_path, capfd):
    sources = {f"s{number}": "def (" for number in range(9)}
    course = Course.open(TINY)
    found = hand_ins(a_class(tmp_path / "in", **sources), course)
    tasks = plan(found, course.exercises, course, "en")
    parts = [shard(tasks, index, 2) for index in (1, 2)]
    assert all(parts)
    for name, part in (("whole", tasks), ("one", parts[0]), ("two", parts[1])):
        with Batch(tmp_path / name, Setting(TINY, "en", "best")) as batch:
            for task in part:
                encoded, page = graded(Setting(TINY, "en", "best"), task)
                batch._keep(task, msgspec.json.decode(encoded, type=Report), page)
            batch.finish()
    out = tmp_path / "both"
    assert grade("merge", tmp_path / "one", tmp_path / "two", "--out", out, "--course", TINY) == 0
    assert (out / "gradebook.csv").read_text() == (tmp_path / "whole/gradebook.csv").read_text()
    for path in (tmp_path / "whole/reports").rglob("*.html"):
        assert (out / path.relative_to(tmp_path / "whole")).is_file()


def test_the_others_are_merged_into_one_of_them(tmp_path, capfd):
    for name in ("one", "two"):
        with Batch(tmp_path / name, fakes.SETTING) as batch:
            batch._keep(fakes.task(name), fakes.report(name=name), "<html></html>")
    one, two = tmp_path / "one", tmp_path / "two"
    assert grade("merge", one, two, one / "../one", "--out", one, "--course", TINY) == 0
    assert set(rows(one)) == {"one", "two"}


def test_a_student_is_named_by_label_id_or_pattern(tmp_path):
    course = Course.open(TINY)
    found = hand_ins(a_class(tmp_path, anna="x", bo="y"), course)
    assert [hand_in.label for hand_in in named(found, ["an*"])[0]] == ["anna"]
    assert named(found, ["bo", "cy"])[1] == ["cy"]


def called(word: str, *hand_ins: HandIn) -> list[str]:
    return [hand_in.label for hand_in in named(_told_apart(hand_ins), [word])[0]]


def a_hand_in(label: str, *members: str, **ids: str) -> HandIn:
    people = tuple(Person(name) for name in members)
    return HandIn(label, f"class/{label}", Gathered(label, ()), ids=ids, members=people)


def test_a_name_selects_all_who_are_called_so():
    two = [a_hand_in("Anna Müller", moodle_participant=id) for id in ("3001", "3002")]
    assert called("Anna Müller", *two) == ["Anna Müller (3001)", "Anna Müller (3002)"]
    assert called("3002", *two) == ["Anna Müller (3002)"]
    assert called(unicodedata.normalize("NFD", "Anna Müller"), *two) == called("Anna Müller", *two)
    sections = [a_hand_in("anna", section="A"), a_hand_in("anna", section="B"), a_hand_in("anna (old)")]
    assert called("anna", *sections) == ["anna (A)", "anna (B)"]


def test_a_group_is_named_by_each_of_its_members():
    group = a_hand_in("Gina Eins + Gus Zwei", "Gina Eins", "Gus Zwei")
    assert called("Gus Zwei", group) == called("Gina*", group) == [group.label]
    assert called("Gus", group) == []


def test_a_pattern_matches_a_name_with_a_comma_and_capitals_count():
    assert called("Li*", a_hand_in("Li, Wei")) == ["Li, Wei"]
    assert called("li*", a_hand_in("Li, Wei")) == []


# ---- results among the submissions

BEST = ("--course", TINY, "--lang", "en", "--isolation", "best", "--jobs", 1)


@pytest.mark.parametrize("inside", ["results", "."])
@pytest.mark.parametrize("wrapped", ["", "downloaded"])
def test_results_among_the_submissions_are_nobodys(tmp_path, capfd, inside, wrapped):
    folder = tmp_path / "in"
    a_class(folder / wrapped, anna=REFERENCE, bo="def (")
    for _ in range(2):
        assert grade("batch", folder, "--out", folder / inside, *BEST) == 0
        assert set(rows(folder / inside)) == {"anna", "bo"}
    assert capfd.readouterr().err.count("Passed over") == 0
    assert grade("batch", folder, "--out", tmp_path / "other", *BEST, "--dry-run", "--json") == 0
    told, said = capfd.readouterr()
    assert [json.loads(line)["submission"] for line in told.splitlines()] == ["anna", "bo"]
    assert ("Passed over" in said) == (inside == "results")


def test_results_in_a_section_are_nobodys(tmp_path, capfd):
    folder = a_class(tmp_path, **{f"section {at}/{name}": REFERENCE for at in "12" for name in "ab"})
    Gradebook(folder / "section 1/results" / DATABASE).close()
    assert grade("batch", folder, "--out", tmp_path / "out", *BEST, "--dry-run", "--json") == 0
    told = {json.loads(line)["submission"] for line in capfd.readouterr().out.splitlines()}
    assert told == {f"{name} (section {at})" for at in "12" for name in "ab"}


# ---- the command


@pytest.fixture(scope="module")
def graded_class(tmp_path_factory):
    """A class graded with the command: folder, where the results are, exit code."""
    folder = tmp_path_factory.mktemp("class")
    wrong = REFERENCE.replace("softmax", "log_softmax", 1)
    students = {"anna": REFERENCE, "=cmd": wrong, "007": "def (", "李雷 😀": REFERENCE, 'o"hara, jr': REFERENCE}
    a_class(folder / "in", **students)
    (folder / "in/nobody").mkdir()
    (folder / "in/nobody/notes.txt").write_text("hello")
    code = grade("batch", folder / "in", "--out", folder / "out", "--course", TINY, "--isolation", "best", "--jobs", 1)
    return folder / "in", folder / "out", code


def test_a_class_is_graded_in_one_command(graded_class):
    _, out, code = graded_class
    found = rows(out)
    assert code == 0
    assert set(found) == {"anna", "=cmd", "007", "李雷 😀", 'o"hara, jr', "nobody"}
    assert found["anna"]["score"] == "100"
    assert (found["007"]["verdict"], found["nobody"]["verdict"]) == ("syntax_error", "missing")
    assert len(list((out / "reports").rglob("*.html"))) == len(list((out / "reports").rglob("*.json"))) == 6


def test_the_same_command_again_grades_nothing(graded_class, capfd):
    folder, out, _ = graded_class
    assert grade("batch", folder, "--out", out, "--course", TINY, "--isolation", "best", "--json") == 0
    events = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert events[-1] == {"event": "end", "done": 0, "unchanged": 6, "lowered": [], "errors": []}


def test_a_dry_run_says_who_is_who(graded_class, capfd):
    folder, out, _ = graded_class
    assert grade("batch", folder, "--out", out, "--course", TINY, "--dry-run", "--json") == 0
    told = {event["submission"]: event for event in map(json.loads, capfd.readouterr().out.splitlines())}
    assert told["nobody"]["missing"] == ["ex01"]
    assert told["007"]["problems"]
    assert grade("batch", folder, "--out", out, "--course", TINY, "--dry-run", "--lang", "zh") == 0
    assert "未提交" in capfd.readouterr().out


def test_a_dry_run_passes_over_nothing(tmp_path, capfd):
    """Sections, a link in place of a student, a file that belongs to no exercise."""
    folder = a_class(tmp_path / "in", **{f"section {at}/{name}": REFERENCE for at, name in ("1a", "1b", "2a", "2c")})
    (folder / "section 2" / "d").symlink_to(tmp_path)
    (folder / "section 1" / "b" / "homework.py").write_text("x = 1\n")
    words = ("batch", folder, "--out", tmp_path / "out", "--course", TINY, "--dry-run", "--lang", "en")
    assert grade(*words, "--json") == 0
    told = {event["submission"]: event for event in map(json.loads, capfd.readouterr().out.splitlines())}
    assert set(told) == {"a (section 1)", "a (section 2)", "b", "c", "d"}
    assert "is a link" in told["d"]["problems"]["ex01"]
    assert told["b"]["files"]["ex01"].endswith(f"section 1/b/{MAIN}")
    assert grade(*words) == 0
    said = capfd.readouterr().out
    assert said.count("is a link") == 1
    assert not (tmp_path / "out").exists()


def test_a_dry_run_says_a_layout_once(tmp_path, capfd):
    folder = a_class(tmp_path / "in", **dict.fromkeys("abc", REFERENCE))
    words = ("batch", folder, "--out", tmp_path / "out", *BEST, "--dry-run")
    assert grade(*words) == 0
    said = capfd.readouterr().out.splitlines()
    layout = text("intake.layout.folders", "en")
    assert [line for line in said if layout in line] == [f"Recognised: {layout}"] == said[:1]
    assert [line.split()[0] for line in said[1::2]] == ["a", "b", "c"]


def test_a_dry_run_says_once_what_is_wrong_with_a_whole_hand_in(tmp_path, capfd):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna/ex04.py").write_text("x = 1\n")
    (tmp_path / "ben.7z").write_bytes(b"7z")
    assert grade("batch", tmp_path, "--dry-run") == 0
    assert (
        len([line for line in capfd.readouterr().out.splitlines() if line.startswith("    ") and "ben.7z" in line]) == 1
    )


def test_nobody_is_passed_over_in_silence_for_a_file_of_results(tmp_path, capfd):
    a_class(tmp_path / "in/download", **dict.fromkeys(("anna", "ben", "cem"), REFERENCE))
    for content, place in ((b"", 0), (b"SQLite format 3\0", 1)):  # an empty file is no reason at all
        (tmp_path / "in/download/anna/results.sqlite").write_bytes(content)
        assert grade("batch", tmp_path / "in", "--course", TINY, "--dry-run") == 0
        said = capfd.readouterr()
        assert [line for line in (said.out, said.err)[place].splitlines() if "anna" in line]


def test_students_who_are_no_longer_there_are_named_and_keep_their_results(tmp_path, capfd):
    folder, out = a_class(tmp_path / "in", **dict.fromkeys("abcdef", "def (")), tmp_path / "out"
    assert grade("batch", folder, "--out", out, *BEST) == 0
    assert "not in" not in capfd.readouterr().out
    for name in "abde":
        shutil.rmtree(folder / name)
    assert grade("batch", folder, "--out", out, *BEST, "--only", "c") == 0
    assert f"not in {folder} (4; their results stay): a, b, d, ...\n" in capfd.readouterr().out
    assert set(rows(out)) == set("abcdef")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "zoe"], "zoe"),
        (["--regrade", "--changed"], "give one of them"),
        (["--failed", "--changed", "--dry-run"], "give one of them"),
        (["--shard", "3/2"], "3/2"),
        (["--exercise", "ex99"], "ex99"),
        (["--scheduler", "tcp://127.0.0.1:1"], "127.0.0.1" if find_spec("distributed") else "[dask]"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(graded_class, capfd, monkeypatch, words, said):
    folder, out, _ = graded_class
    monkeypatch.setattr("grader.crew.PATIENCE", 1)
    assert grade("batch", folder, "--out", out, "--course", TINY, *words) == 2
    assert said in capfd.readouterr().err


def test_a_missing_folder_and_a_strange_book_are_sentences(tmp_path, capfd):
    assert grade("batch", tmp_path / "none", "--out", tmp_path / "out", "--course", TINY) == 2
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / DATABASE).write_text("not a database" * 100)
    assert grade("merge", tmp_path / "other", "--out", tmp_path / "out", "--course", TINY) == 2
    assert DATABASE in capfd.readouterr().err


def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(tmp_path, capfd, monkeypatch, fake_log):
    def interrupted(crew, fn, /, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Crew, "submit", interrupted)
    folder = a_class(tmp_path / "in", anna=REFERENCE)
    code = grade("batch", folder, "--out", tmp_path / "out", "--course", TINY, "--isolation", "best", "--jobs", 1)
    assert code == 130
    assert "0 of 1" in capfd.readouterr().err
    assert (tmp_path / "out/gradebook.csv").is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal")
@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_whatever_asks_it_to_stop_the_cursor_comes_back(tmp_path, asked):
    folder, out = a_class(tmp_path / "in", anna=HANGS, bo=HANGS), tmp_path / "out"
    code, shown = on_a_terminal("batch", folder, "--out", out, *BEST, when=b"2 submissions", then=asked)
    assert code == 130
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
    assert b"Stopped after 0 of 2" in shown
    assert (out / "gradebook.csv").is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal")
def test_what_nohup_began_is_not_stopped_by_the_end_of_the_terminal(tmp_path):
    folder, out = a_class(tmp_path / "in", anna=REFERENCE), tmp_path / "out"
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code, _ = on_a_terminal("batch", folder, "--out", out, *BEST, when=b"1 submissions", then=signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, earlier)
    assert (code, set(rows(out))) == (0, {"anna"})


@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal")
def test_when_the_terminal_itself_goes_the_gradebook_is_written(tmp_path):
    folder, out = a_class(tmp_path / "in", anna=HANGS), tmp_path / "out"
    words = ("batch", folder, "--out", out, *BEST)
    code, _ = on_a_terminal(*words, when=b"1 submissions", then=signal.SIGHUP, closed=True)
    assert code == 130
    assert (out / "gradebook.csv").is_file()


def on_a_terminal(*words: object, when: bytes, then: signal.Signals, closed: bool = False) -> tuple[int, bytes]:
    """Runs `grade` on a terminal, and sends it a signal when it has shown something: exit code, all that it showed.

    With `closed`, the terminal is gone by then.
    """
    ours, its = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "grader", *map(str, words)]
    running = subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's end
        while more := os.read(ours, 4096):
            shown, before = shown + more, shown
            if when in shown and when not in before:
                if closed:
                    os.close(ours)
                running.send_signal(then)
    if not closed:
        os.close(ours)
    return running.wait(60), shown


def test_isolation_that_is_not_to_be_had_has_its_own_exit_code(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(Batch.__init__, "__defaults__", (fakes.uncontained,))
    folder = a_class(tmp_path / "in", anna=REFERENCE)
    assert grade("batch", folder, "--out", tmp_path / "out", "--course", TINY, "--jobs", 1) == 4
    assert "no such thing here" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the lock-down is Linux's")
@pytest.mark.parametrize(("mode", "code"), [("require", 4), ("best", 0)])
def test_a_layer_that_is_missing_ends_the_batch_unless_the_best_will_do(
    tmp_path, capfd, monkeypatch, fake_log, mode, code
):
    """With real judges and workers: none is given a submission where the isolation is required."""
    monkeypatch.setattr(Batch.__init__, "__defaults__", (fakes.on_an_old_kernel,))
    folder, out = a_class(tmp_path / "in", anna=REFERENCE), tmp_path / "out"
    words = ("batch", folder, "--out", out, "--course", TINY, "--jobs", 1, "--lang", "en")
    assert grade(*words, "--isolation", mode) == code
    if mode == "require":
        assert re.search(r"Files \(.*left out\)", capfd.readouterr().err)
        assert not list(out.glob("reports/*"))
        assert grade(*words) == code  # it is what a batch does unless told otherwise
    else:
        told = json.loads((out / "reports/anna/ex01_scores.json").read_text())
        assert (told["score"], told["isolation"]["level"]) == (100, "limits_only")
        assert "the solutions included" in told["isolation"]["not_prevented"][0]


# ---- alone

SLOW_AT_FIRST = REFERENCE.replace(
    "    return q @", "    if not asked:\n        asked.append(time.sleep(0.8))\n    return q @"
).replace("import torch", "import time\nasked = []\nimport torch", 1)
HANGS = REFERENCE.replace("    return q @", "    while True: pass\n    return q @")


def test_in_a_batch_a_time_limit_counts_if_it_is_reached_alone_too(tmp_path, fake_log):
    course = Course.open(TINY)
    right = {f"s{number}": f"{REFERENCE}\n# {number}\n" for number in range(6)}
    found = hand_ins(a_class(tmp_path / "in", slow=SLOW_AT_FIRST, hangs=HANGS, **right), course)
    with Batch(tmp_path / "out", Setting(TINY, "en", "best"), fakes.on_a_busy_machine) as batch:
        crew = Crew(2)
        list(batch.run(plan(found, course.exercises, course, "en"), crew))
        crew.shutdown()
        entries = {entry.student: entry for entry in entries_of(batch.book)}
        hung = batch.book.report("hangs", "ex01_scores")
    assert (entries["slow"].verdict, entries["slow"].score) == (Verdict.PASSED, 100)
    assert {entry.verdict for name, entry in entries.items() if name != "hangs"} == {Verdict.PASSED}
    assert entries["hangs"].verdict is Verdict.TIMEOUT
    assert hung.properties[0].verdict is Verdict.TIMEOUT
    turns = [line.split() for line in fake_log.read_text().splitlines()]
    alone = [turn for turn in turns if turn[0] == "alone"]
    assert {name for _, name, *_ in alone} >= {"slow", "hangs"}
    assert len({pid for _, _, pid, *_ in turns}) == 2
    for _, _, pid, *times in alone:
        began, ended = map(float, times)
        assert not [turn for turn in turns if turn[2] != pid and began < float(turn[4]) and float(turn[3]) < ended]


def test_who_is_alone_waits_for_the_others_and_they_for_him(tmp_path):
    seen = []

    def work(turns: Shared, name: str, pause: float) -> None:
        for _ in range(20):
            with turns.together():
                seen.append((name, "in"))
                time.sleep(pause)
                seen.append((name, "out"))

    turns = [Shared(tmp_path) for _ in range(3)]
    others = [threading.Thread(target=work, args=(each, name, 0.004)) for each, name in zip(turns, "ab", strict=False)]
    for each in others:
        each.start()
    time.sleep(0.02)
    with turns[2].alone():
        before = len(seen)
        time.sleep(0.05)
        assert len(seen) == before
        assert sum(what == "in" for _, what in seen) == sum(what == "out" for _, what in seen)
    for each in others:
        each.join()
    assert len(seen) == 80
    for each in turns:
        each.close()


# ---- memory


MEMORY = """
import sys
from pathlib import Path
from grader.batch import Setting, Task, _grader, graded, version_of
from grader.exercises import Course
from grader.submissions import Submission

exercise = Course.open(sys.argv[1]).exercises[0]
setting, mistakes = Setting(Path(sys.argv[1]), "en", "best"), exercise.mistakes()

def memory(pid, file, *names):
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names)) / 1024

def source(number):
    wrong = mistakes[number // 2 % len(mistakes)]
    return (exercise.reference if number % 2 else wrong.apply(exercise.reference)) + f"# {number}"

def task(number):
    submission = Submission("s", Path("x.py"), exercise.module, {exercise.module: source(number)})
    return Task("s", "s", exercise.slug, submission, "", version_of(exercise), "")

for number in range(300):
    graded(setting, task(number))
    if number == 60:
        early = memory("self", "status", "VmRSS")
print(memory("self", "status", "VmRSS") - early)
with _grader(setting)[0]._started().worker() as worker:
    print(memory(worker._process.pid, "smaps_rollup", "Private_"))
"""


def test_memory_stays_flat_over_three_hundred_submissions():
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("the system does not tell how much memory is a process's own")
    command = [sys.executable, "-W", "ignore", "-c", MEMORY, str(TINY)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    grown, own = map(float, answer.stdout.split())
    assert grown < 12
    assert 0 < own < 40


# ---- executors that others bring


def six(folder: Path) -> tuple[Course, list[batches.Task]]:
    """Six submissions that differ: right ones, wrong ones, one that Python cannot read."""
    wrong = REFERENCE.replace("** 0.5", "** 0.25")
    sources = {
        "a": REFERENCE,
        "b": wrong,
        "c": "def (",
        "d": f"{REFERENCE}# d",
        "e": f"{wrong}# e",
        "f": f"{REFERENCE}# f",
    }
    course = Course.open(TINY)
    return course, plan(hand_ins(a_class(folder, **sources), course), course.exercises, course, "en")


@pytest.fixture(scope="module")
def locally(tmp_path_factory) -> str:
    """The gradebook of the six, graded with a crew of our own."""
    folder = tmp_path_factory.mktemp("locally")
    with Batch(folder / "out", Setting(TINY, "en", "best")) as batch:
        crew = Crew(1)
        list(batch.run(six(folder / "in")[1], crew))
        crew.shutdown()
        batch.finish()
    return (folder / "out/gradebook.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "executor",
    [
        lambda: futures.ThreadPoolExecutor(3),
        lambda: futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")),
    ],
    ids=["threads", "processes"],
)
def test_any_executor_gives_the_same_gradebook(tmp_path, locally, executor):
    with Batch(tmp_path / "out", Setting(TINY, "en", "best")) as batch, executor() as pool:
        kept = [progress.entry.student for progress in batch.run(six(tmp_path / "in")[1], pool) if progress.entry]
        batch.finish()
    assert sorted(kept) == list("abcdef")
    assert (tmp_path / "out/gradebook.csv").read_text(encoding="utf-8") == locally


def test_a_pool_that_breaks_leaves_what_is_kept_and_the_next_goes_on(tmp_path, fake_log):
    tasks = [fakes.task(f"s{number}") for number in range(9)] + [fakes.task("z", "dies once")]
    with Batch(tmp_path, fakes.SETTING, fakes.step) as batch:
        pool = futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        with pool, pytest.raises(futures.BrokenExecutor):
            list(batch.run(tasks, pool))
        left = pending(tasks, batch.book)
        assert tasks[-1] in left
        with futures.ThreadPoolExecutor(1) as pool:
            list(batch.run(left, pool))
        assert len(entries_of(batch.book)) == 10
    assert {name: log_of(tmp_path).count(name) for name in ("s0", "z")} == {"s0": 1, "z": 2}


# ---- a cluster


@contextlib.contextmanager
def a_cluster(folder: Path, size: int) -> Iterator[tuple[Cluster, list[subprocess.Popen]]]:
    """A Dask scheduler and workers on this machine: an executor, and the workers' processes."""
    pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}", "FAKE_LOG": str(folder)}
    started = []

    def start(*words: object) -> subprocess.Popen:
        command = [sys.executable, "-m", "distributed.cli." + str(words[0]), *map(str, words[1:])]
        started.append(subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL))
        return started[-1]

    try:
        file = folder / "scheduler.json"
        start("dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
        plain = ("--scheduler-file", file, "--no-nanny", "--nthreads", 1, "--no-dashboard", "--host", "127.0.0.1")
        workers = [start("dask_worker", *plain) for _ in range(size)]
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.1)
        cluster = Cluster(json.loads(file.read_text())["address"])
        cluster._client.wait_for_workers(size, timeout=60)
        yield cluster, workers
        cluster.shutdown()
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_dask_cluster_grades_although_a_worker_is_killed(tmp_path):
    tasks = [fakes.task(f"s{number}") for number in range(80)]
    with a_cluster(tmp_path, 2) as (cluster, workers), Batch(tmp_path / "out", fakes.SETTING, fakes.step) as batch:
        for progress in batch.run(tasks, cluster):
            if progress.done == 20:
                workers[0].kill()
        assert len(entries_of(batch.book)) == 80


def test_real_judges_on_a_dask_cluster_give_the_same_gradebook(tmp_path, locally):
    """One of two workers is killed, and its judge and zygote with it; nothing is lost, and nothing kept twice."""
    kept = []
    setting = Setting(TINY, "en", "best")
    with a_cluster(tmp_path, 2) as (cluster, workers), Batch(tmp_path / "out", setting) as batch:
        for progress in batch.run(six(tmp_path / "in")[1], cluster):
            kept += [progress.entry.student] if progress.entry else []
            if progress.done == 2:
                workers[0].kill()
        batch.finish()
    assert sorted(kept) == list("abcdef")
    assert (tmp_path / "out/gradebook.csv").read_text(encoding="utf-8") == locally
