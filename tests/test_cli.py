"""The command line: what it prints, what it writes, how it exits."""

import collections
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from paper_course import REFERENCES, write_course

from grader import __version__, cli, grading, workspace
from grader.exercises import CourseError
from grader.isolation import Unavailable
from grader.messages import text
from grader.results import Isolation, Layer, PropertyResult, Report, Verdict
from grader.submissions import Problem

SLUG = "ex02_causal_mask"
TINY = Path(__file__).parent / "courses/tiny"
RIGHT = REFERENCES[SLUG].replace("    # BEGIN SOLUTION\n", "").replace("    # END SOLUTION\n", "")


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    return write_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def grade(course, tmp_path, monkeypatch, capsys):
    """Runs `grade WORDS` in an empty folder; answers exit code and what was printed to stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADE_COURSE", str(course.folder))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("GRADE_LANG", raising=False)
    monkeypatch.setattr(grading, "Grader", PretendingGrader)

    def run(*words):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


class PretendingGrader:
    """Stands where the real one does, and starts nothing."""

    def __init__(self, course, lang, isolation):
        self.lang = lang

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def grade(self, exercise, submission, select=""):
        return pretend(exercise, submission, self.lang, select)


def pretend(exercise, submission, lang, select):
    """A grade that trusts: the reference's text passes, "fault" is a fault of ours, all else fails."""
    verdict = Verdict.FAILED
    if isinstance(submission, Problem):
        verdict = submission.verdict
    elif "fault" in submission.files[submission.main]:
        verdict = Verdict.GRADER_ERROR
    elif "NotImplementedError" not in submission.files[submission.main]:
        verdict = Verdict.PASSED
    chosen = [name for name in ("shape", "value") if not select or select in name]
    passed = verdict is Verdict.PASSED
    rows = [PropertyResult(name, verdict, 50.0 * passed, 50.0, f"The {name} is right.") for name in chosen]
    message = submission.sentence(lang) if isinstance(submission, Problem) else ""
    points = 50.0 * len(rows)
    title = exercise.title(lang)
    score = points * passed
    return Report(exercise.slug, title, submission.label, score, points, verdict, rows, message=message, lang=lang)


def put(name, content=RIGHT):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


# ---- grading


def test_all_passed_is_0(grade):
    put(f"{SLUG}.py")
    code, out, err = grade("ex02")
    assert (code, err) == (0, "")
    assert "100 / 100" in out


def test_not_all_passed_is_1(grade):
    put(f"{SLUG}.py", RIGHT + "NotImplementedError\n")
    assert grade("ex02")[0] == 1


def test_a_syntax_error_is_1_and_shows_the_line(grade):
    put(f"{SLUG}.py", "def f(:\n")
    code, out, _ = grade("ex02")
    assert code == 1
    assert "def f(:" in out


def test_our_own_fault_is_3(grade):
    put(f"{SLUG}.py", RIGHT + "fault = 1\n")
    assert grade("ex02")[0] == 3


def test_nothing_found_is_2_and_says_what_was_expected(grade):
    code, out, _ = grade("ex02")
    assert code == 2
    assert f"{SLUG}.py is not in" in out


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_unknown_exercise_is_2(grade, lang):
    code, out, err = grade("casual_mask", "--lang", lang)
    assert (code, out) == (2, "")
    assert SLUG in err
    assert ("你是想" in err) is (lang == "zh")


def test_a_path_may_be_a_file_or_a_folder(grade):
    path = put(f"elsewhere/{SLUG}.py")
    assert grade("ex02", path)[0] == 0
    assert grade("ex02", path.parent)[0] == 0
    assert grade("ex02", "nowhere")[0] == 2


def test_a_folder_may_be_reached_by_a_link(grade):
    put(f"elsewhere/{SLUG}.py")
    Path("link").symlink_to("elsewhere")
    assert grade("ex02", "link")[0] == 0


def test_only_some_properties(grade):
    put(f"{SLUG}.py")
    assert "value" not in grade("ex02", "-k", "shape")[1]
    code, _, err = grade("ex02", "-k", "nonsense")
    assert code == 2
    assert "nonsense" in err


def test_an_exception_of_ours_is_a_sentence_and_a_file(grade, monkeypatch):
    put(f"{SLUG}.py")
    monkeypatch.setattr(PretendingGrader, "grade", lambda *args: 1 / 0)
    code, out, err = grade("ex02")
    assert code == 3
    assert "Traceback" not in out + err
    assert "costs you nothing" in err
    details = Path(err.rsplit(" in ", 1)[1].strip().rstrip("."))
    assert "ZeroDivisionError" in details.read_text(encoding="utf-8")
    details.unlink()


def test_a_defect_of_the_course_is_3(grade, course, tmp_path, monkeypatch):
    shutil.copytree(course.folder, tmp_path / "broken")
    (tmp_path / "broken/exercises" / SLUG / "exercise.toml").write_text("[", encoding="utf-8")
    monkeypatch.setenv("GRADE_COURSE", str(tmp_path / "broken"))
    put(f"{SLUG}.py")
    code, _, err = grade("ex02")
    assert code == 3
    assert "exercise.toml" in err


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_isolation_that_cannot_be_had_is_4(grade, monkeypatch, lang):
    def refuse(*args):
        raise Unavailable(Isolation("limits_only", [Layer("limits", True), Layer("filesystem", False, "no Landlock")]))

    put(f"{SLUG}.py")
    monkeypatch.setattr(PretendingGrader, "grade", refuse)
    code, out, err = grade("ex02", "--isolation", "require", "--lang", lang)
    assert (code, out) == (4, "")
    assert text("report.layer_name.filesystem", lang) in err
    assert text("report.layer_name.limits", lang) not in err
    assert "grade doctor" in err
    assert "--isolation best" in err


def test_another_course_by_option(grade, course, monkeypatch):
    monkeypatch.delenv("GRADE_COURSE")
    put(f"{SLUG}.py")
    assert grade("ex02", "--course", course.folder)[0] == 0
    code, _, err = grade("ex02", "--course", ".")
    assert code == 2
    assert "GRADE_COURSE" in err


# ---- reports


def test_a_page_is_written_and_its_path_told(grade):
    put(f"{SLUG}.py")
    assert "grade-reports/ex02.html" in grade("ex02")[1]
    assert Path("grade-reports/ex02.html").read_text(encoding="utf-8").startswith("<!")
    assert sorted(path.name for path in Path().iterdir()) == [f"{SLUG}.py", "grade-reports"]


def test_reports_are_written_where_they_are_asked_for(grade):
    put(f"{SLUG}.py")
    code, out, _ = grade("ex02", "--report", "json:out/r.json", "--report", "html:r.html")
    assert code == 0
    assert "r.html" in out
    assert json.loads(Path("out/r.json").read_text(encoding="utf-8"))["score"] == 100
    assert not Path("grade-reports").exists()


def test_a_report_to_the_screen_is_all_that_is_printed(grade):
    put(f"{SLUG}.py")
    assert json.loads(grade("ex02", "--report", "json:-")[1])["verdict"] == "passed"


@pytest.mark.parametrize("word", ["html", "html:", "pdf:out.pdf", ":x"])
def test_a_report_of_no_known_form_is_refused(grade, word):
    put(f"{SLUG}.py")
    code, out, err = grade("ex02", "--report", word)
    assert (code, out) == (2, "")
    assert "json" in err


def test_a_report_that_cannot_be_written_is_a_sentence(grade):
    put(f"{SLUG}.py")
    put("taken", "a file")
    code, _, err = grade("ex02", "--report", "json:taken/r.json")
    assert code == 2
    assert "taken/r.json" in err


def test_a_missing_submission_has_a_report_too(grade):
    assert grade("ex02", "--report", "json:r.json")[0] == 2
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["verdict"] == "missing"


# ---- all, and where the learner stands


def test_all_grades_what_is_there(grade):
    put(f"{SLUG}/{SLUG}.py")
    put("ex10_training/ex10_training.py", REFERENCES["ex10_training"] + "NotImplementedError\n")
    code, out, _ = grade("all", "--report", "json:out/{exercise}.json")
    assert code == 1
    assert out.count("/ 100") == 2
    assert sorted(path.name for path in Path("out").iterdir()) == ["ex02.json", "ex10.json"]


def test_a_defect_of_one_exercise_leaves_the_others(grade, monkeypatch):
    def grade_one(self, exercise, submission, select=""):
        if exercise.id == "ex02":
            raise CourseError("course.file_missing", file="properties.py")
        return pretend(exercise, submission, self.lang, select)

    monkeypatch.setattr(PretendingGrader, "grade", grade_one)
    put(f"{SLUG}.py")
    put("ex10_training.py", REFERENCES["ex10_training"])
    code, out, err = grade("all")
    assert code == 3
    assert "ex10_training" in out
    assert "properties.py is missing" in err
    code, out, err = grade()
    assert code == 1
    assert "properties.py is missing" in out
    assert "✓ ex10_training" in out


def test_all_with_nothing_there_is_2(grade):
    code, _, err = grade("all")
    assert code == 2
    assert "grade init" in err


def test_all_needs_a_place_for_the_exercise(grade):
    assert "{exercise}" in grade("all", "--report", "json:r.json")[2]


def test_standing_shows_scores_and_what_comes_next(grade):
    assert grade("init", "mine")[0] == 0
    os.chdir("mine")
    put("ex01_double/ex01_double.py", REFERENCES["ex01_double"])
    code, out, _ = grade()
    assert code == 1
    assert "✓ ex01_double" in out
    assert "100 / 100" in out
    assert out.count("not begun") == 2
    assert "Next: ex02" in out


def test_standing_in_an_empty_folder_shows_how_to_begin(grade):
    code, out, _ = grade()
    assert code == 2
    assert "grade init" in out


def test_standing_at_the_end(grade):
    for slug, reference in REFERENCES.items():
        put(f"{slug}.py", reference)
    code, out, _ = grade()
    assert code == 0
    assert "passed every exercise" in out


def test_watch_grades_what_was_saved(grade, monkeypatch):
    put(f"{SLUG}.py", "x = 1\n")

    def saves(path):
        yield  # nothing has changed
        put(f"{SLUG}.py")
        yield

    monkeypatch.setattr("grader.workspace.saves", saves)
    code, out, _ = grade("watch", "ex02")
    assert code == 0
    assert out.count("100 / 100") == 1


def test_a_save_is_seen_by_its_time_or_size(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)  # as if it were not installed
    monkeypatch.chdir(tmp_path)
    file = put("a/b.py", "x")
    rounds = iter([lambda: None, lambda: file.write_text("xy"), lambda: put("c.py", "z"), lambda: file.unlink()])
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        next(rounds, give_up)()

    def give_up():
        raise KeyboardInterrupt

    monkeypatch.setattr("grader.workspace.time.sleep", sleep)
    saved = []
    with pytest.raises(KeyboardInterrupt):
        collections.deque(map(saved.append, workspace.saves(tmp_path)), maxlen=0)
    assert (len(saved), slept) == (3, [0.5] * 5)


def test_a_watcher_is_used_where_there_is_one(tmp_path, monkeypatch):
    def watch(path, **options):
        assert options == {"rust_timeout": 500, "yield_on_timeout": True}
        yield set()
        put(tmp_path / "a.py", "x")
        yield {"a change"}

    monkeypatch.setitem(sys.modules, "watchfiles", types.SimpleNamespace(watch=watch))
    assert len(list(workspace.saves(tmp_path))) == 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_console_that_lacks_the_letters_still_works(encoding, tmp_path):
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "grader", "--help", "--lang", "zh"]
    answer = subprocess.run(command, env=env, capture_output=True, check=True)
    assert b"--lang" in answer.stdout
    assert answer.stderr == b""


# ---- a learner's way


def test_init_writes_stubs_and_lessons(grade, course):
    code, out, _ = grade("init", "mine")
    assert code == 0
    assert "9 files written" in out
    assert Path(f"mine/{SLUG}/{SLUG}.py").read_text(encoding="utf-8") == course.find("ex02").stub
    assert "讲义" in Path(f"mine/{SLUG}/README.zh.md").read_text(encoding="utf-8")


def test_init_never_overwrites_work(grade):
    grade("init", "mine", "ex02")
    put(f"mine/{SLUG}/{SLUG}.py", "my work\n")
    code, out, _ = grade("init", "mine", "ex02")
    assert code == 0
    assert f"kept mine/{SLUG}/{SLUG}.py" in out
    assert Path(f"mine/{SLUG}/{SLUG}.py").read_text(encoding="utf-8") == "my work\n"
    assert "1 files written, 2 already there, 0 kept" in grade("init", "mine", "ex02", "--force")[1]


def test_init_into_a_file_is_a_sentence(grade):
    put("mine", "a file")
    code, _, err = grade("init", "mine")
    assert code == 2
    assert "mine" in err


@pytest.mark.parametrize(("lang", "said"), [("en", "# Lesson of"), ("zh", "讲义")])
def test_lesson(grade, lang, said):
    assert said in grade("lesson", "ex02", "--lang", lang)[1]


def test_hints_go_from_a_nudge_to_nearly_the_answer(grade):
    assert "A nudge." in grade("hint", "ex02")[1]
    assert "grade hint ex02 3" in grade("hint", "ex02", "2")[1]
    assert "Nearly" in grade("hint", "ex02", "3")[1]
    assert grade("hint", "ex02", "4")[0] == 2
    assert grade("hint", "ex02", "0")[0] == 2


@pytest.mark.parametrize(("answers", "code", "end"), [("1024\nb\n", 0, "2 of 2"), ("7\nkeys\n", 1, "1 of 2")])
def test_quiz(grade, monkeypatch, answers, code, end):
    monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
    found, out, _ = grade("quiz", "ex02")
    assert found == code
    assert end in out
    assert "2 times 512." in out


def test_a_quiz_that_is_broken_off(grade, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert grade("quiz", "ex02")[0] == 130


def test_the_solution_is_shown_only_on_purpose(grade):
    code, out, err = grade("solution", "ex02")
    assert (code, out) == (2, "")
    assert "--yes" in err
    code, out, _ = grade("solution", "ex02", "--yes")
    assert code == 0
    assert "return ids != pad_id" in out
    assert "SOLUTION" not in out


def test_a_student_edition_has_no_solution_to_show(grade, course, tmp_path, monkeypatch):
    shutil.copytree(course.folder / "exercises", tmp_path / "edition/exercises")
    monkeypatch.setenv("GRADE_COURSE", str(tmp_path / "edition"))
    code, _, err = grade("solution", "ex02", "--yes")
    assert code == 2
    assert "student edition" in err


# ---- authors


def test_stubs_are_made_from_references(grade, course, tmp_path, monkeypatch):
    shutil.copytree(course.folder, tmp_path / "copy")
    monkeypatch.setenv("GRADE_COURSE", str(tmp_path / "copy"))
    stub = tmp_path / "copy/exercises" / SLUG / f"{SLUG}.py"
    stub.write_text("drifted", encoding="utf-8")
    assert grade("author", "stubs", "--check")[0] == 1
    assert stub.read_text(encoding="utf-8") == "drifted"
    assert grade("author", "stubs")[0] == 0
    assert stub.read_text(encoding="utf-8") == course.find("ex02").stub
    assert grade("author", "stubs", "--check")[0] == 0


def test_cases_are_drawn_for_what_has_changed_alone(grade, tmp_path, monkeypatch):
    shutil.copytree(TINY, tmp_path / "copy")
    monkeypatch.setenv("GRADE_COURSE", str(tmp_path / "copy"))
    record = tmp_path / "copy/exercises/ex01_scores/cases.json"
    assert grade("author", "cases", "--check")[0] == 1
    assert not record.exists()
    assert grade("author", "cases")[0] == 0
    drawn = json.loads(record.read_bytes())
    kept, changed = list(drawn)[:2]
    drawn[kept]["cases"][0][1] = 12345
    drawn[changed] = {"of": "another signature", "cases": []}
    record.write_text(json.dumps(drawn), encoding="utf-8")
    assert grade("author", "cases")[0] == 0
    again = json.loads(record.read_bytes())
    assert again[kept]["cases"][0][1] == 12345
    assert again[changed]["cases"]
    assert grade("author", "cases", "--check")[0] == 0


@pytest.mark.parametrize("record", ["[1]", "{", '{"scores_have_the_shape": 3}', "cut"])
def test_a_record_that_cannot_be_true_is_a_defect_of_the_course(grade, tmp_path, monkeypatch, record):
    shutil.copytree(TINY, tmp_path / "copy")
    monkeypatch.setenv("GRADE_COURSE", str(tmp_path / "copy"))
    assert grade("author", "cases")[0] == 0
    path = tmp_path / "copy/exercises/ex01_scores/cases.json"
    drawn = json.loads(path.read_bytes())
    drawn["scores_have_the_shape"]["cases"] = drawn["scores_have_the_shape"]["cases"][:1]
    path.write_text(json.dumps(drawn) if record == "cut" else record, encoding="utf-8")
    code, _, err = grade("author", "cases", "--check")
    assert code == 3
    assert "cases.json" in err


# ---- help and usage


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "command", ["", "one", *sorted(set(cli.cli.commands) - {"one"}), "author stubs", "author cases"]
)
def test_every_command_has_help_in_both_languages(grade, lang, command):
    code, out, err = grade(*command.split(), "--help", "--lang", lang)
    assert (code, err) == (0, "")
    assert "cli." not in out
    assert ("用法：" in out) is (lang == "zh")
    assert ("Usage" in out) is (lang == "en")


def test_the_systems_language_is_taken(grade, monkeypatch):
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "用法" in grade("--help")[1]
    assert "Usage" in grade("--help", "--lang=en")[1]


def test_version(grade):
    assert grade("--version")[1].strip() == __version__


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ex02", "--rport", "x"], "--report"),
        (["ex02", "--nothing-like-it"], "--nothing-like-it"),
        (["init"], "DIR"),
        (["hint", "ex02", "many"], "many"),
        (["ex02", "--isolation", "some"], "--isolation"),
        (["ex02", "a", "b"], "b"),
        (["author", "nothing"], "nothing"),
    ],
)
def test_wrong_usage_is_2_and_a_sentence(grade, words, said, lang):
    code, out, err = grade(*words, "--lang", lang)
    assert (code, out) == (2, "")
    assert said in err
    assert "grade --help" in err


def test_help_is_quick_and_imports_nothing_heavy():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    heavy = ["torch", "hypothesis", "pytest", "jinja2", "rich", "sqlite3"]
    ask = "import sys\nfrom grader import cli\ntry: cli.main(['--help'])\n"
    code = f"{ask}finally: assert not set({heavy}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 0.6  # 0.12 s on an idle machine; the bound is for a crowded one


# ---- the whole program, in its own process


@pytest.fixture
def program(tmp_path):
    """Runs `grade WORDS` as a person does, in an empty folder, on the small course."""

    def run(*words):
        env = {**os.environ, "GRADE_COURSE": str(TINY), "LC_ALL": "C.UTF-8", "PYTHONPATH": str(TINY.parents[2])}
        command = [sys.executable, "-m", "grader", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def test_a_wrong_submission_from_end_to_end(program, tmp_path):
    source = (TINY / "solutions/ex01_scores/ex01_scores.py").read_text(encoding="utf-8")
    (tmp_path / "ex01.py").write_text(source.replace("q @ k", "2 * q @ k"), encoding="utf-8")
    answer = program("ex01")
    assert (answer.returncode, answer.stderr) == (1, "")
    assert "80 / 100" in answer.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ex01.py", "grade-reports"]
    assert [path.name for path in (tmp_path / "grade-reports").iterdir()] == ["ex01.html"]


def test_the_doctor_looks_at_the_machine(program):
    answer = program("doctor", "--lang", "zh")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "isolation" in answer.stdout
    assert "1 个练习" in answer.stdout


def test_debug_runs_in_this_process_and_gives_no_score(program, tmp_path):
    source = (TINY / "solutions/ex01_scores/ex01_scores.py").read_text(encoding="utf-8")
    (tmp_path / "ex01.py").write_text("import os\nprint('pid', os.getppid())\n" + source, encoding="utf-8")
    answer = program("ex01", "--debug")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"pid {os.getpid()}" in answer.stdout
    assert "100" not in answer.stdout
