"""A path in, a submission or one clear sentence out."""

import os
import socket
import zipfile
from pathlib import Path

import pytest
from paper_course import write_course

from grader.messages import catalogue
from grader.results import Verdict
from grader.submissions import DEEPEST, FILE_BYTES, MOST_FILES, Problem, Submission, read_submission

SLUG = "ex02_causal_mask"
MODULE = f"{SLUG}.py"
CODE = "def causal_mask(T):\n    return T\n\n\ndef padding_mask(ids, pad_id):\n    return ids\n"


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    return write_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read(course, here):
    return lambda path=here: read_submission(course.find(SLUG), path, course)


def put(folder, name, content=CODE):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problem(found, key, *said):
    """The sentence of a problem, which must be complete in both languages."""
    assert isinstance(found, Problem), found
    assert found.key == f"submission.{key}"
    for lang in ("en", "zh"):
        sentence = found.sentence(lang)
        assert all(word in sentence for word in said), sentence
        assert "Traceback" not in sentence
    return found


# ---- where it is


@pytest.mark.parametrize("place", ["", SLUG, f"exercises/{SLUG}", "exercises", "unpacked", "a/b"])
def test_found_in_a_folder(read, here, place):
    put(here / place, MODULE)
    found = read()
    assert isinstance(found, Submission), found
    assert (found.main, found.files[MODULE], found.notes) == (MODULE, CODE, ())


def test_a_file_by_its_path_may_have_any_name(read, here):
    found = read(put(here, "my work.py"))
    assert isinstance(found, Submission)
    assert found.main == "my work.py"


def test_the_label_is_what_a_person_would_type(read, here):
    put(here, f"{SLUG}/{MODULE}")
    assert read().label == f"{SLUG}/{MODULE}"


@pytest.mark.parametrize(
    "name",
    [
        "ex02_causal_mask (1).py", "ex02_causal_mask-1.py", "ex02_causalmask.py", "ex02_causal_mask_final.py",
        "EX02-causal-mask copy.py",
    ],
)  # fmt: skip
def test_nearly_the_right_name_is_taken_with_a_note(read, here, name):
    put(here, name)
    put(here, "ex10_training.py", "def shift(ids): ...\ndef train_step(model, optimizer, ids): ...\n")
    found = read()
    assert isinstance(found, Submission), found
    assert found.main == name
    assert name in found.notes[0].sentence("en")
    assert name in found.notes[0].sentence("zh")


@pytest.mark.parametrize(
    "name", ["ex02.py", "ex2.py", "Ex02_Causal_Mask.py", "EX02.PY", "causal_mask.py", "2.py", "exercise2.py"]
)
@pytest.mark.parametrize("beside", [[], ["ex02_test.py", "ex02_utils.py", "ex02_old.py"]])
def test_a_name_that_says_the_exercise_alone_is_a_right_one(read, here, name, beside):
    put(here, name)
    for other in beside:
        put(here, other, "x = 1\n")
    found = read()
    assert isinstance(found, Submission), found
    assert (found.main.lower(), found.notes) == (name.lower(), ())


def test_any_name_is_taken_for_what_it_defines(read, here):
    put(here, "homework.py")
    put(here, "notes.py", "x = 1\n")
    assert read().main == "homework.py"


def test_two_that_could_be_meant_are_named(read, here):
    put(here, "ex02.py")
    put(here, "ex02 (1).py")
    problem(read(), "several", "ex02.py", "ex02 (1).py", MODULE)


def test_another_number_is_not_taken(read, here):
    put(here, "ex03_causal_mask.py", "x = 1\n")
    problem(read(), "not_found_meant", "ex03_causal_mask.py", MODULE)


# ---- what is not there


def test_a_path_that_does_not_exist(read, here):
    problem(read(here / "nowhere"), "no_path", "nowhere")
    put(here, MODULE)
    problem(read(here / "ex02_casual_mask.py"), "no_path_meant", MODULE)


def test_an_empty_folder(read):
    assert problem(read(), "empty_folder", MODULE).absent


def test_other_files_are_named_the_first_five(read, here):
    for letter in "abcdefg":
        put(here, f"{letter}.py", "x = 1\n")
    found = problem(read(), "not_found", "a.py, b.py, c.py, d.py, e.py, ... (7)", MODULE)
    assert found.absent
    assert found.verdict is Verdict.MISSING


def test_only_a_notebook(read, here):
    put(here, "ex02.ipynb", "{}")
    problem(read(), "only_notebook", "ex02.ipynb", MODULE)


@pytest.mark.parametrize(
    "name", [f"._{MODULE}", f"__MACOSX/{MODULE}", f".git/{MODULE}", f"__pycache__/{MODULE}", ".DS_Store"]
)
def test_what_systems_leave_behind_is_no_submission(read, here, name):
    put(here, name)
    problem(read(), "empty_folder")


def test_a_folder_in_its_place(read, here):
    (here / MODULE).mkdir()
    problem(read(), "folder_in_place", MODULE)


def test_the_code_of_another_exercise(read, here):
    put(here, MODULE, "def shift(ids): ...\ndef train_step(model, optimizer, ids): ...\n")
    problem(read(), "other_exercise", "ex10_training", SLUG)


def test_a_broken_neighbour_in_the_course_is_no_obstacle(here, tmp_path_factory):
    course = write_course(tmp_path_factory.mktemp("broken"))
    (course.folder / "exercises/ex10_training/ex10_training.py").unlink()
    put(here, MODULE, "def something_else(): ...\n")
    assert isinstance(read_submission(course.find(SLUG), here, course), Submission)


@pytest.mark.parametrize(
    "binding",
    [
        "from helper import *",
        "from helper import mine as causal_mask",
        "causal_mask = 1",
        "globals()['causal_mask'] = 1",
    ],
)
def test_a_file_that_may_bind_a_name_is_graded(read, here, binding):
    put(here, MODULE, f"def shift(ids): ...\ndef train_step(model, optimizer, ids): ...\n{binding}\n")
    assert isinstance(read(), Submission)


def test_an_unknown_name_alone_is_graded(read, here):
    put(here, MODULE, "def something_else(): ...\n")
    assert isinstance(read(), Submission)


# ---- kinds of file


def test_a_link_is_refused(read, here):
    put(here, "real/work.py")
    (here / MODULE).symlink_to(here / "real/work.py")
    problem(read(), "is_link", MODULE)
    problem(read(here / MODULE), "is_link", MODULE)


def test_a_pipe_is_refused_at_once(read, here):
    os.mkfifo(here / MODULE)
    problem(read(), "is_pipe", MODULE)


def test_a_socket_is_refused(read, here):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(MODULE)
        problem(read(), "is_socket", MODULE)


def test_a_device_is_refused(read):
    problem(read(Path("/dev/zero")), "is_device", "/dev/zero")


def test_a_file_of_two_gigabytes_is_not_read(read, here):
    with (here / MODULE).open("wb") as file:
        file.truncate(2_000_000_000)
    problem(read(), "too_large", "2,000,000,000")


def test_a_file_that_may_not_be_read(read, here, monkeypatch):
    put(here, MODULE)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    problem(read(), "unreadable", MODULE, "Permission denied")


def test_a_name_that_no_file_can_have(read, here):
    problem(read(here / ("x" * 5000)), "unreadable")


# ---- text


@pytest.mark.parametrize(
    ("encoding", "prefix", "comment"),
    [
        ("utf-8", "", "# 掩码"), ("utf-8-sig", "", "# 掩码"), ("gbk", "# -*- coding: gbk -*-\n", "# 掩码"),
        ("latin-1", "# coding: latin-1\n", "# é"), ("utf-8", "# vim: set fileencoding=utf-8 :\n", "# 😀"),
    ],
)  # fmt: skip
def test_what_python_reads_is_read(read, here, encoding, prefix, comment):
    put(here, MODULE, f"{prefix}{comment}\n{CODE}".encode(encoding))
    found = read()
    assert isinstance(found, Submission), found
    assert comment in found.files[MODULE]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("encoding", "comment", "shown"),
    [
        ("gbk", "# 掩码在 softmax 之前", "GBK"),
        ("latin-1", "# déjà vu", "Latin-1"),
        ("utf-16", "# 掩码", "UTF-16"),
        ("utf-32", "# 掩码", "UTF-32"),
    ],
)
def test_another_encoding_in_comments_is_graded_with_a_note(read, here, encoding, comment, shown):
    put(here, MODULE, f"{comment}\n{CODE}".encode(encoding))
    found = read()
    assert isinstance(found, Submission), found
    assert shown in found.notes[0].sentence("en")
    assert comment in found.files[MODULE]


def test_another_encoding_in_the_code_is_refused(read, here):
    put(here, MODULE, f"{CODE}é = 1\n".encode("latin-1"))
    problem(read(), "encoding", MODULE, "7")


@pytest.mark.parametrize("declared", ["no-such-codec", "rot13", "hex", "idna"])
def test_an_odd_declaration_does_not_stop_plain_text(read, here, declared):
    put(here, MODULE, f"# coding: {declared}\n{CODE}")
    assert isinstance(read(), Submission)


def test_line_ends_of_other_systems(read, here):
    put(here, MODULE, CODE.replace("\n", "\r\n"))
    assert read().files[MODULE] == CODE
    put(here, MODULE, CODE.replace("\n", "\r"))
    assert read().files[MODULE] == CODE


def test_nul_bytes(read, here):
    found = put(here, MODULE, CODE + "\0")
    assert problem(read(found), "nul_bytes", "7").verdict is Verdict.SYNTAX_ERROR


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"%PDF-1.7 ...", "PDF"), (b'{"cells": []}', "Jupyter"), (b"<!DOCTYPE html>", "HTML"), (b"\xff\xfeabc", "UTF-16")],
)
def test_other_kinds_of_file_are_called_by_their_name(read, here, content, kind):
    put(here, MODULE, content)
    problem(read(), "not_text", kind)


def test_a_zip_called_py(read, here):
    with zipfile.ZipFile(here / MODULE, "w") as archive:
        archive.writestr("a.txt", "text")
    problem(read(), "not_text", "ZIP")


@pytest.mark.parametrize("content", ["", "\n\n  \n", b"\xef\xbb\xbf"])
def test_an_empty_file(read, here, content):
    put(here, MODULE, content)
    problem(read(), "empty_file", MODULE)


def test_comments_alone(read, here):
    put(here, MODULE, "# to do\n")
    problem(read(), "only_comments", MODULE)


def test_a_syntax_error_shows_the_line_and_a_caret(read, here):
    put(here, MODULE, "import math\n\ndef causal_mask(T:\n    return T\n")
    found = problem(read(), "syntax", "def causal_mask(T:", "3")
    *_, line, caret = found.sentence("en").split("\n")
    assert line[caret.index("^")] == "("
    assert found.verdict is Verdict.SYNTAX_ERROR
    assert (found.location.file, found.location.line, found.location.first) == (MODULE, 3, 1)


def test_a_long_line_is_cut_around_the_error(read, here):
    put(here, MODULE, "x = [" + "1, " * 5000 + "2 3]\n")
    found = problem(read(), "syntax")
    *_, line, caret = found.sentence("en").split("\n")
    assert len(line) < 80
    assert len(caret) < 80


def test_the_caret_stands_below_wide_letters(read, here):
    put(here, MODULE, "x = '掩码' ) \n")
    *_, line, caret = read().sentence("zh").split("\n")
    assert len(caret) - 1 == len(line[: line.index(")")]) + 2


@pytest.mark.parametrize(
    "content", ["-" * 100_000 + "1", "a" + ".b" * 100_000, "(" * 50_000, "9" * 100_000, "lambda:" * 50_000 + "1"]
)
def test_deep_nesting_is_a_sentence(read, here, content):
    put(here, MODULE, content)
    found = read()
    assert found.key in ("submission.nested", "submission.syntax")
    assert MODULE in found.sentence("en")


def test_a_doubtful_escape_is_no_error(read, here):
    put(here, MODULE, CODE + "pattern = '\\d'\nx = 1 is 1\n")
    assert isinstance(read(), Submission)


# ---- helper modules


def test_helpers_travel_with_their_paths(read, here):
    put(here, MODULE, "from parts.mask import causal_mask\nimport layers\n")
    put(here, "layers.py", "x = 1\n")
    put(here, "parts/mask.py", "def causal_mask(T): return T\n")
    put(here, "data.txt", "no")
    assert set(read().files) == {MODULE, "layers.py", "parts/mask.py"}


def test_environments_and_hidden_folders_stay_behind(read, here):
    put(here, MODULE)
    for folder in ("venv", ".venv", "myenv", "lib/site-packages", "__pycache__", "__MACOSX", ".git", "grade-reports"):
        put(here, f"{folder}/module.py", "x = 1\n")
    put(here, "myenv/pyvenv.cfg", "")
    put(here, "._layers.py", "x = 1\n")
    assert set(read().files) == {MODULE}


def test_links_and_pipes_beside_it_stay_behind(read, here):
    put(here, MODULE)
    (here / "linked.py").symlink_to("/etc/passwd")
    (here / "loop").symlink_to(here)
    os.mkfifo(here / "pipe.py")
    assert set(read().files) == {MODULE}


def test_too_many_neighbours_do_not_stop_the_grading(read, here):
    for number in range(MOST_FILES + 20):
        put(here, f"a{number:03}.py", "x = 1\n")
    put(here, "zz_needed.py", "def causal_mask(T): return T\n")
    put(here, MODULE, "from zz_needed import causal_mask\n")
    found = read()
    assert "zz_needed.py" in found.files
    assert len(found.files) == MOST_FILES + 1
    assert found.notes == ()


def test_a_helper_that_is_needed_and_cannot_be_read_is_told(read, here):
    put(here, MODULE, "import helper\n" + CODE)
    put(here, "helper.py", b"x = 1\n" * FILE_BYTES)
    found = read()
    assert set(found.files) == {MODULE}
    assert "helper.py" in found.notes[0].sentence("zh")


def test_the_search_for_helpers_ends(read, here):
    put(here, MODULE)
    put(here, "/".join(["d"] * (DEEPEST + 1)).strip("/") + "/deep.py", "x = 1\n")
    assert set(read().files) == {MODULE}


def test_files_that_could_shadow_ours_are_only_text(read, here):
    put(here, MODULE)
    for name in ("torch.py", "conftest.py", "sitecustomize.py"):
        put(here, name, "raise SystemExit\n")
    assert set(read().files) == {MODULE, "torch.py", "conftest.py", "sitecustomize.py"}


def test_nothing_is_left_behind(read, here):
    put(here, MODULE)
    read()
    assert [path.name for path in here.iterdir()] == [MODULE]


def test_every_sentence_of_a_submission_has_a_test():
    tested = Path(__file__).read_text(encoding="utf-8")
    keys = {key.removeprefix("submission.") for key in catalogue() if key.startswith("submission.")}
    notes = {"renamed", "saved_as", "left_out", "from_notebook"}  # tested above by what they say
    never_seen = {"cannot_parse"}  # what ast.parse may raise on NUL bytes, which are refused before
    assert {key for key in keys - notes - never_seen if key not in tested} == set()
