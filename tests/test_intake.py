"""A folder as a system hands it out -> who handed in what. Whatever one hand-in is, the others are graded."""

import bz2
import functools
import io
import json
import os
import pickle
import shutil
import stat
import struct
import subprocess
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_course import write_course

from grader import archives, intake, notebooks, places, repositories
from grader.files import Refused, readable
from grader.gradescope import Person, scalar, submitters
from grader.messages import catalogue, text
from grader.results import Verdict
from grader.submissions import Problem, Submission

SLUG = "ex02_causal_mask"
MODULE = f"{SLUG}.py"
CODE = "def causal_mask(T):\n    return T\n\n\ndef padding_mask(ids, pad_id):\n    return ids\n"
OTHER = "ex10_training.py"
OTHER_CODE = "def shift(ids): ...\n\n\ndef train_step(model, optimizer, ids): ...\n"
NAMES = ["Anna Müller", "王小明", 'O"Neil, Sam', "007", "=cmd|'calc'!A0", "Zoë 😀", "Li--Wei", "con", "-rf"]


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    return write_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder called `class`, in the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


@pytest.fixture
def found(course, here):
    """What is recognised: label -> hand-in."""
    return lambda path=here: {each.label: each for each in intake.hand_ins(path, course)}


@pytest.fixture
def read(course):
    return lambda hand_in: hand_in.read(course.find(SLUG), course)


def put(folder, name, content=CODE):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(files, **more):
    """The bytes of a zip; `files` maps names (or ZipInfo) to contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in dict(files).items():
            archive.writestr(name, content, **more)
    return buffer.getvalue()


def tarred(files, mode="w:gz", **kinds):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
        for name, kind in kinds.items():
            info = tarfile.TarInfo(f"{name}.py")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return buffer.getvalue()


def notebook(*cells):
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["# ex02"]}, *code], "nbformat": 4}).encode()


def problem(result, key, *said):
    """The sentence of a problem, which must be complete in both languages."""
    assert isinstance(result, Problem), result
    assert result.key == key, result.sentence("en")
    for lang in ("en", "zh"):
        assert all(word in result.sentence(lang) for word in said), result.sentence(lang)
    return result


def submitted(result):
    assert isinstance(result, Submission), result.sentence("en")
    return result


# ---- one student a folder, an archive, a file


@pytest.mark.parametrize("place", ["", SLUG, f"exercises/{SLUG}", "week 2/hand in", "a/b/c"])
def test_a_folder_a_student(found, read, here, place):
    for name in NAMES:
        put(here / name / place, MODULE)
    hand_ins = found()
    assert set(hand_ins) == set(NAMES)
    for label, hand_in in hand_ins.items():
        submission = submitted(read(hand_in))
        assert (submission.label, submission.files) == (label, {MODULE: CODE})


WORK = {"02": ("ex02.py", CODE), "10": ("ex10.py", OTHER_CODE)}


@pytest.mark.parametrize(
    "way",
    [
        "ex{n}-{who}/{file}", "{who}-ex{n}/{file}", "{who}_ex{n}/main.py", "ex{n}_{title}-{who}/{file}",
        "{who} - {file}", "{who}_homework{n}.py", "{who}_第{n}次作业.py", "{who}_ex{n}_final_v2.py",
        "{who}_ex{n} (1).py", "hw{n}/{who}.py", "Assignment {n}/{who}.py", "实验{n}/{who}/{file}",
        "第{zh}次作业/{who}.py", "Exercise {n}/{who}/solution.py",
        "CS101-Exercise {n} {words}-98765/{who}_{id}_assignsubmission_file_/{file}",
        "深度学习-第{n}次作业-98765/{who}_{id}_assignsubmission_file_/{file}",
    ],
)  # fmt: skip
def test_a_student_is_one_though_every_exercise_came_by_itself(found, course, here, way):
    titles, numerals = {"02": "causal_mask", "10": "training"}, {"02": "二", "10": "十"}
    for number, (file, code) in WORK.items():
        title = titles[number]
        for id, who in enumerate(("anna", "王小明"), start=700 + int(number)):
            told = {
                "id": 10 * id,
                "n": number,
                "zh": numerals[number],
                "title": title,
                "words": title.replace("_", " "),
            }
            put(here, way.format(who=who, file=file, **told), code + f"# {who}\n")
    hand_ins = found()
    assert set(hand_ins) == {"anna", "王小明"}
    for who, hand_in in hand_ins.items():
        for slug in (SLUG, OTHER.removesuffix(".py")):
            assert f"# {who}\n" in "".join(submitted(hand_in.read(course.find(slug), course)).files.values())


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Anna New_ex02.py", "Anna New"), ("ex02_Anna New.py", "Anna New"), ("Mask_ex02.py", "Mask"),
        ("anna_ex02_final_v2.py", "anna"), ("ex02_anna_final.py", "anna"), ("anna_ex02 (1).zip", "anna"),
        ("li_1_ex02.py", "li_1"), ("wang2_ex02.py", "wang2"), ("ex02-team2", "team2"), ("ex02 causal", ""),
        ("Copy of ex02.ipynb", ""), ("ex02_causal_mask-1.py", ""), ("Homework 2 - Anna (2).zip", "Anna"),
        ("王小明-第二次作业-最终版.py", "王小明"), ("hw20_anna.py", "hw20_anna"), ("第十二次作业", "第十二次作业"),
    ],
)  # fmt: skip
def test_what_a_name_tells_beside_the_exercise(course, name, student):
    assert places.read_homework(name, course)[1] == student


def test_downloads_side_by_side_know_a_student_by_the_same_number(found, course, here):
    put(here, "submissions.zip", zipped({f"anna_1{n}_77_ex02.py": f"{CODE}# {n}\n" for n in range(4)}))
    put(here, "submissions (1).zip", zipped({f"anna_1{n}_99_ex10.py": f"{OTHER_CODE}# {n}\n" for n in range(4)}))
    hand_ins = found()
    assert [hand_in.ids["canvas_user"] for hand_in in hand_ins.values()] == ["10", "11", "12", "13"]
    for hand_in in hand_ins.values():
        for slug in (SLUG, OTHER.removesuffix(".py")):
            number = f"# {hand_in.ids['canvas_user'][1]}\n"
            assert number in "".join(submitted(hand_in.read(course.find(slug), course)).files.values())


def test_a_name_has_one_spelling(found, here):
    put(here, "ex02/Anna Mu\u0308ller/ex02.py")
    put(here, "ex10/anna  M\u00fcller/ex10.py", OTHER_CODE)
    put(here, "ex02/ben/ex02.py")
    put(here, "ex10/ben/ex10.py", OTHER_CODE)
    assert len(found()) == 2


def test_capitals_tell_apart_who_is_called_alike(found, course, here):
    for exercise, names in (("ex02", ("Li Na", "li na", "Anna")), ("ex10", ("Li Na", "anna"))):
        for name in names:
            put(here, f"{exercise}/{name}/{exercise}.py", (CODE if exercise == "ex02" else OTHER_CODE) + f"# {name}\n")
    hand_ins = found()
    assert set(hand_ins) == {"Li Na", "li na", "Anna"}
    read = {name: each.read(course.find("ex10"), course) for name, each in hand_ins.items()}
    assert {name: isinstance(each, Submission) for name, each in read.items()} == {
        "Li Na": True,
        "li na": False,
        "Anna": True,
    }


def test_users_of_one_name_stay_apart_across_exercises(found, here):
    for n in range(4):
        put(here, f"hw2/wang_{n}_{n}02_ex02.py")
        put(here, f"hw10/wang_{n}_{n}10_ex10.py", OTHER_CODE)
    assert [hand_in.ids["canvas_user"] for hand_in in found().values()] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("beside", ["solution", "fixed", "final_version", "neu", "anna"])
def test_a_file_that_may_be_the_newer_one_makes_it_unclear(found, read, here, beside):
    put(here / "anna", "ex02.py", "x = 1\n")
    put(here / "anna", f"ex02_{beside}.py")
    problem(read(found()["anna"]), "submission.several", f"ex02_{beside}.py")


@pytest.mark.parametrize("names", [("draft", "old", "submit"), ("src", "tests", "data")])
def test_folders_below_a_student_are_no_students(found, here, names):
    for who in ("anna", "ben", "cem"):
        for name in names:
            put(here, f"{who}/{name}/main.py", f"{CODE}# {name}\n")
    assert set(found()) == {"anna", "ben", "cem"}


def test_two_that_nobody_can_put_together_stay_apart(found, here):
    put(here, "gil/ex02.py")
    put(here, "gil.zip", zipped({"ex02.py": "x = 1\n"}))
    put(here, "hal/ex02.py")
    put(here, "Li Na_ex02.py")
    put(here, "li na_ex02.py", "x = 1\n")
    assert len(found()) == 5


@pytest.mark.parametrize("name", ["EX02.PY", "Ex02.Py"])
def test_capitals_in_an_ending_make_no_difference(found, read, here, name):
    put(here / "anna", name)
    put(here, "BEN.ZIP", zipped({name: CODE}))
    put(here, f"cara_{name}")
    hand_ins = found()
    assert set(hand_ins) == {"anna", "BEN", "cara"}
    assert all(submitted(read(hand_in)).files for hand_in in hand_ins.values())


def test_a_file_called_by_no_exercise_may_hold_several(found, course, here):
    put(here, "anna/all.py", CODE + OTHER_CODE)
    put(here, "ben/ex02.py", CODE + OTHER_CODE)
    there = {
        (who, slug): isinstance(hand_in.read(course.find(slug), course), Submission)
        for who, hand_in in found().items()
        for slug in (SLUG, OTHER.removesuffix(".py"))
    }
    assert list(there.values()) == [True, True, True, False]


@pytest.mark.parametrize("prefix", ["", "hw2/", "a/b/"])
@pytest.mark.parametrize(
    "pack", [zipped, tarred, lambda files: tarred(files, "w:bz2"), lambda files: tarred(files, "w")]
)
@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])  # the content decides
def test_an_archive_a_student(found, read, here, prefix, pack, suffix):
    junk = {f"{prefix}__MACOSX/._{MODULE}": "x", f"{prefix}.DS_Store": "x", f"{prefix}.git/HEAD": "x"}
    files = {f"{prefix}{MODULE}": CODE, f"{prefix}layers.py": "x = 1\n", **junk, "__MACOSX/x.py": "x"}
    put(here, f"anna{suffix}", pack(files))
    put(here, "ben/x.txt", "x")
    assert submitted(read(found()["anna"])).files == {MODULE: CODE, "layers.py": "x = 1\n"}


def test_archives_in_archives(found, read, here):
    inner = zipped({f"answers/{MODULE}": CODE})
    put(here, "anna.zip", zipped({"hw/inner.zip": inner, "hw/readme.txt": "hello"}))
    put(here, "ben/ex02.zip", inner)
    put(here, "ben/ex10.tar.gz", tarred({OTHER: OTHER_CODE}))
    hand_ins = found()
    assert submitted(read(hand_ins["anna"])).path.as_posix() == f"class/anna.zip/hw/inner.zip/answers/{MODULE}"
    assert submitted(read(hand_ins["ben"])).files == {MODULE: CODE}


def test_archives_are_opened_so_deep_and_no_deeper(found, read, here):
    data = {MODULE: CODE}
    for level in range(archives.DEEPEST + 1):
        data = {f"{level}.zip": zipped(data)}
    put(here, "anna/readme.txt")
    put(here, "anna/0.zip", next(iter(data.values())))
    put(here, "ben/x.txt", "x")
    problem(read(found()["anna"]), "submission.not_found")


@pytest.mark.parametrize("top", ["", "export/", "export/students/"])
@pytest.mark.parametrize("packed", [False, "zip", "tar.gz"])
def test_a_class_with_or_without_a_top_folder(found, read, here, top, packed):
    files = {f"{top}{name}/{MODULE}": CODE for name in ("anna", "ben")}
    path = here
    if packed:
        path = put(here, f"all.{packed}", zipped(files) if packed == "zip" else tarred(files))
    else:
        for name, content in files.items():
            put(here, name, content)
    for start in {path, here}:  # a folder that holds nothing but the archive is the same
        hand_ins = found(start)
        assert set(hand_ins) == {"anna", "ben"}
        assert submitted(read(hand_ins["ben"])).files == {MODULE: CODE}


def test_loose_files_carry_the_student_in_their_names(found, read, here):
    for name in (
        "anna_ex02.py",
        "anna_ex10_training.py",
        "ex02_causal_mask-王小明.py",
        "Ben Li - exercise 2.py",
        "cy.py",
    ):
        put(here, name, OTHER_CODE if "ex10" in name else CODE)
    hand_ins = found()
    assert set(hand_ins) == {"anna", "王小明", "Ben Li", "cy"}
    assert all(isinstance(read(hand_in), Submission) for hand_in in hand_ins.values())
    assert set(submitted(read(hand_ins["anna"])).files) == {"anna_ex02.py", "anna_ex10_training.py"}


@pytest.mark.parametrize("name", [MODULE, "ex02.py", f"{SLUG}/{MODULE}", f"exercises/{SLUG}/{MODULE}"])
def test_the_folder_of_one_student(found, read, here, name):
    put(here, name)
    put(here, "notes.txt", "x")
    hand_ins = found()
    assert set(hand_ins) == {"class"}
    assert hand_ins["class"].layout == "one"
    submitted(read(hand_ins["class"]))


@pytest.mark.parametrize("prefix", ["", "hw/"])
def test_the_archive_of_one_student(found, read, here, prefix):
    hand_ins = found(put(here, "anna.zip", zipped({f"{prefix}{MODULE}": CODE})))
    assert [submitted(read(each)).files for each in hand_ins.values()] == [{MODULE: CODE}]


def test_a_stray_stub_does_not_make_a_class_one_student(found, here):
    put(here, MODULE)
    for name in ("anna", "ben"):
        put(here, f"{name}/{MODULE}")
    assert {"anna", "ben"} <= set(found())


def test_the_file_in_the_fewest_folders_counts(found, read, here):
    put(here, f"anna/new/{MODULE}")
    put(here, f"anna/old/drafts/{MODULE}", "x = 1\n")
    put(here, f"ben/a/{MODULE}")
    put(here, f"ben/b/{MODULE}", f"{CODE}# newer\n")
    assert submitted(read(found()["anna"])).path.parent.name == "new"
    problem(read(found()["ben"]), "submission.several", f"a/{MODULE}", f"b/{MODULE}")


def test_a_wrong_name_deep_inside_is_found_by_what_it_defines(found, read, here):
    put(here, "anna/x/y/homework.py")
    put(here, "anna/x/z.py", "x = 1\n")
    put(here, "ben/x.txt", "x")
    assert submitted(read(found()["anna"])).main == "homework.py"


def test_the_wrong_archive_is_told_apart(found, read, here):
    put(here, "anna.zip", zipped({MODULE: OTHER_CODE}))
    put(here, "ben/x.txt", "x")
    problem(read(found()["anna"]), "submission.other_exercise", "ex10_training")


@pytest.mark.parametrize("name", ["", "nowhere", "notes.txt"])
def test_nothing_to_grade_is_a_sentence_for_the_instructor(found, here, name):
    put(here, "notes.txt", "x")
    with pytest.raises(Refused) as refused:
        found(here / name)
    assert refused.value.key.startswith("intake.")
    assert "class" in refused.value.sentence("zh")


# ---- Moodle


def test_moodle_with_folders(found, read, here):
    put(here, f"Anna Müller_657717_assignsubmission_file_/{MODULE}")
    put(here, "Anna Müller_657717_assignsubmission_onlinetext_/onlinetext.html", "<p>hi</p>")
    put(here, f"王小明_657718_assignsubmission_file/hw/{MODULE}")
    put(here, "Ben_657719_assignsubmission_onlinetext_/onlinetext.html", "<p>def causal_mask</p>")
    hand_ins = found()
    assert {label: each.ids["moodle_participant"] for label, each in hand_ins.items()} == {
        "Anna Müller": "657717", "王小明": "657718", "Ben": "657719",
    }  # fmt: skip
    submitted(read(hand_ins["Anna Müller"]))
    submitted(read(hand_ins["王小明"]))
    assert problem(read(hand_ins["Ben"]), "intake.nothing_handed_in", "Ben").absent


def test_moodle_without_folders(found, read, here):
    put(here, f"Anna Li_1_assignsubmission_file_{MODULE}")
    put(here, "Anna Li_1_assignsubmission_file_layers.py", "x = 1\n")
    put(here, "Ben_02_assignsubmission_file_my_hw_2.zip", zipped({f"a/{MODULE}": CODE}))
    hand_ins = found()
    assert submitted(read(hand_ins["Anna Li"])).files == {MODULE: CODE, "layers.py": "x = 1\n"}
    assert hand_ins["Ben"].ids == {"moodle_participant": "02"}
    submitted(read(hand_ins["Ben"]))


def test_moodle_blind_marking_and_equal_names(found, here):
    for name in ("Participant_1", "参与者_2", "Wei Li_3", "Wei Li_4"):
        put(here, f"{name}_assignsubmission_file_/{MODULE}")
    assert set(found()) == {"Participant 1", "参与者 2", "Wei Li (3)", "Wei Li (4)"}


@pytest.mark.parametrize("name", ["Anna_1_assignsubmission_file_/ex02.py", "anna_1_2_ex02.py"])
def test_nobody_among_recognised_students_is_passed_over(found, read, here, name):
    put(here, name)
    put(here, f"Late Ben/{MODULE}")
    assert isinstance(read(found()["Late Ben"]), Submission)


def test_moodle_as_one_zip_with_archives_in_it(found, read, here):
    names = [f"学生{number}_{number}_assignsubmission_file_" for number in range(3)]
    path = put(here, "CS-作业2-99.zip", zipped({f"{name}/hw.zip": zipped({MODULE: CODE}) for name in names}))
    hand_ins = found(path)
    assert set(hand_ins) == {"学生0", "学生1", "学生2"}
    assert all(isinstance(read(each), Submission) for each in hand_ins.values())


# ---- Canvas


def test_canvas(found, read, here):
    put(here, f"lijuan_LATE_101_9001_{MODULE}")
    put(here, f"mullerannamaria_102_9002_{MODULE}", "raise SystemExit\n")
    put(here, f"mullerannamaria_102_9003_{SLUG}-1.py")
    put(here, f"anon_aB3dE_9004_{MODULE}")
    put(here, "smith_103_text.html", "<p>sorry</p>")
    put(here, f"_104_9005_{MODULE}")
    hand_ins = found()
    assert {label: (each.ids["canvas_user"], each.late) for label, each in hand_ins.items()} == {
        "lijuan": ("101", True), "mullerannamaria": ("102", False), "anon_aB3dE": ("anon_aB3dE", False),
        "smith": ("103", False), "104": ("104", False),
    }  # fmt: skip
    assert submitted(read(hand_ins["mullerannamaria"])).files == {MODULE: CODE}
    problem(read(hand_ins["smith"]), "intake.nothing_handed_in", "smith")


def test_canvas_keeps_numbered_files_that_are_no_copies(found, read, here):
    for attachment, name in enumerate((MODULE, "part-1.py", "part-2.py", "layers-1.py")):
        put(here, f"li_1_{attachment}_{name}", CODE if name == MODULE else "x = 1\n")
    assert set(submitted(read(found()["li"])).files) == {MODULE, "part-1.py", "part-2.py", "layers.py"}


def test_canvas_as_one_zip_and_equal_names(found, read, here):
    path = put(here, "submissions.zip", zipped({f"liwei_{user}_{user}_{MODULE}": CODE for user in (7, 8)}))
    hand_ins = found(path)
    assert set(hand_ins) == {"liwei (7)", "liwei (8)"}
    submitted(read(hand_ins["liwei (7)"]))


# ---- Gradescope

METADATA = """---
submission_11:
  :submitters:
  - :name: Anna Müller
    :sid: '00123'
    :email: anna@example.edu
  :created_at: 2026-11-01 10:00:00.000000000 Z
  :score: 3.0
  :status: processed
  :results:
    tests:
    - :name: not a person
  :history:
  - :id: 5
    :submitters:
    - :name: nobody
submission_12:
  :submitters:
    - :name: "\\u738B\\u5C0F\\u660E \\"Ming\\""
      :sid:
      :email: ming@example.edu
    - :name: 'O''Neil, Sam'
      :sid: 007
      :email: ~
  :created_at: x
submission_13:
  :submitters: []
"""


def test_gradescope(found, read, here):
    top = here / "assignment_5_export"
    put(top, "submission_metadata.yml", METADATA)
    for number in (11, 12, 14):
        put(top, f"submission_{number}/{MODULE}")
    hand_ins = found()
    assert set(hand_ins) == {"Anna Müller", '王小明 "Ming" + O\'Neil, Sam', "submission_13", "submission_14"}
    anna = hand_ins["Anna Müller"]
    assert anna.ids == {"gradescope_submission": "11", "sid": "00123", "email": "anna@example.edu"}
    assert hand_ins["王小明 \"Ming\" + O'Neil, Sam"].members == (
        Person('王小明 "Ming"', "", "ming@example.edu"), Person("O'Neil, Sam", "007", ""),
    )  # fmt: skip
    submitted(read(anna))
    problem(read(hand_ins["submission_13"]), "intake.nothing_handed_in")


def test_gradescope_metadata_that_is_none_leaves_the_folders(found, here):
    put(here, "submission_metadata.yml", b"\xff\x00 no: [yaml")
    put(here, f"submission_1/{MODULE}")
    assert set(found()) == {"submission_1"}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).map(str.strip).filter(bool))
def test_quoted_names_come_back_as_they_were(name):
    single = "'" + name.replace("'", "''") + "'"
    double = json.dumps(name, ensure_ascii=False)
    told = f"---\ns_1:\n  :submitters:\n  - :name: {single}\n    :sid: {double}\n"
    assert submitters(told) == {"s_1": (Person(name, name),)}
    assert scalar(json.dumps(name) if name.isascii() else double) == name


# ---- repositories

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder, *arguments):
    who = ["-c", "user.name=x", "-c", "user.email=x@example.edu", "-c", "commit.gpgsign=false"]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *who, *arguments], cwd=folder, env=environ, check=True, capture_output=True)


def repository(folder, files):
    for name, content in files.items():
        put(folder, name, content)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    return folder


@needs_git
def test_cloned_repositories_are_read_at_their_last_commit(found, read, here):
    top = here / "hw2-submissions"
    name = f"exercises/{SLUG}/{MODULE}"
    repository(top / "hw2-anna", {name: CODE, "layers/a.py": "x = 1\n"})
    dirty = repository(top / "hw2-ben", {name: CODE})
    put(dirty, name, "raise SystemExit\n")
    put(dirty, f"exercises/{SLUG}/untracked.py", "x = 1\n")
    git(top, "clone", "-q", "--bare", "hw2-anna", "hw2-cy.git")
    git(top / "hw2-anna", "gc", "-q")  # packed references and objects
    (top / "hw2-dan").mkdir()
    git(top / "hw2-dan", "init", "-q")
    hand_ins = found(top)
    assert set(hand_ins) == {"anna", "ben", "cy", "dan"}
    for student in ("anna", "ben", "cy"):
        assert submitted(read(hand_ins[student])).files == {MODULE: CODE}
        assert len(hand_ins[student].ids["commit"]) == 40
    problem(read(hand_ins["dan"]), "intake.no_commit", "hw2-dan")


@needs_git
def test_nothing_of_a_repositorys_own_configuration_is_run(found, read, here, tmp_path):
    folder = repository(here / "mallory", {MODULE: CODE, ".gitattributes": "* filter=evil diff=evil\n"})
    marker = tmp_path / "marker"
    run = f"touch {marker}"
    put(
        folder,
        ".git/config",
        f'[core]\n\tfsmonitor = "{run}"\n\thooksPath = .\n\tsshCommand = "{run}"\n\tpager = "{run}"\n'
        f'[filter "evil"]\n\tsmudge = "{run}"\n\tclean = "{run}"\n[diff "evil"]\n\ttextconv = "{run}"\n',
    )
    put(folder, MODULE, "x = 1\n")
    assert submitted(read(found()["mallory"])).files == {MODULE: CODE}
    assert not marker.exists()


@needs_git
def test_links_in_a_commit_lead_nowhere(found, read, here, tmp_path):
    put(tmp_path, "secret/x.py", "secret = 1\n")
    folder = here / "mallory"
    folder.mkdir()
    (folder / MODULE).symlink_to("/etc/passwd")
    repository(folder, {"parts/x.py": "x = 1\n"})
    problem(read(found()["mallory"]), "submission.is_link", MODULE)


@needs_git
def test_a_commit_that_lists_too_much_is_left(found, read, here, monkeypatch):
    """A tree of trees of trees has a billion files; git is stopped, and the working tree counts."""
    repository(here / "mallory", {MODULE: CODE, **{f"{number}.txt": "" for number in range(100)}})
    monkeypatch.setattr(repositories, "MOST_LISTED", 1_000)
    mallory = found()["mallory"]
    assert "commit" not in mallory.ids
    assert submitted(read(mallory)).files == {MODULE: CODE}


def test_without_git_the_working_tree_is_read(found, read, here, monkeypatch):
    put(here, f"anna/{MODULE}")
    put(here, "anna/.git/HEAD", "a" * 40)
    monkeypatch.setattr(repositories.shutil, "which", lambda name: None)
    assert submitted(read(found()["anna"])).files == {MODULE: CODE}


# ---- notebooks


def test_a_notebook_is_read_for_what_it_defines(found, read, here):
    cells = (
        "%matplotlib inline\n!pip install x\nimport torch\nimport matplotlib.pyplot as plt",
        "def causal_mask(T):\n    return 'first'\ncausal_mask(3)",
        "%%bash\nrm -rf ~",
        "SCALE = 2\nx = !ls\nfor step in range(10**9): pass",
        "%%time\n@torch.no_grad()\ndef causal_mask(T):\n    return SCALE * T\nprint(causal_mask(2))",
        "def padding_mask(ids, pad_id):\n    '''\n    %not magic\n    '''\n    x = ids\n    return x\n?padding_mask",
    )
    put(here, "anna/Homework 2.ipynb", notebook(*cells))
    put(here, "ben/x.txt", "x")
    submission = submitted(read(found()["anna"]))
    assert submission.main == "Homework 2.py"
    assert "Homework 2.ipynb" in submission.notes[-1].sentence("zh")
    source = submission.files[submission.main]
    assert [word in source for word in ("plt", "pip", "rm -rf", "range", "print", "!ls")] == [False] * 6
    space = {}
    exec(source.replace("import torch", "class torch: no_grad = lambda: lambda f: f"), space)
    assert space["causal_mask"](3) == 6


def test_one_notebook_may_hold_several_exercises(found, course, here):
    put(here, "anna/all.ipynb", notebook(CODE, OTHER_CODE))
    put(here, "ben/x.txt", "x")
    anna = found()["anna"]
    assert [type(anna.read(course.find(word), course)) for word in ("ex02", "ex10")] == [Submission, Submission]


def test_a_python_file_is_preferred_to_a_notebook(found, read, here):
    put(here, f"anna/{SLUG}.ipynb", notebook("def causal_mask(T): return 1"))
    put(here, f"anna/x/{MODULE}")
    put(here, "ben/x.txt", "x")
    assert submitted(read(found()["anna"])).files == {MODULE: CODE}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"{", "intake.not_a_notebook"),
        (b'{"cells": 3}', "intake.not_a_notebook"),
        (b"[" * 100_000, "intake.not_a_notebook"),
        (notebook("def causal_mask(T):\n    return ("), "intake.cell_syntax"),
        (notebook("print(1)"), "submission.empty_file"),
    ],
)
def test_a_notebook_that_cannot_be_read(found, read, here, content, key):
    put(here, f"anna/{SLUG}.ipynb", content)
    put(here, "ben/x.txt", "x")
    assert "causal_mask" in problem(read(found()["anna"]), key).sentence("zh")


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (["import a, b; x = 1", "def f(): return b.c"], "import a, b"),
        (["f = lambda x: x"], "f = lambda x: x"),
        (["class A: pass", "A.f = lambda self: 1"], "A.f = lambda self: 1"),
        (["def f(): pass", "g = f"], "g = f"),
        (["A = 1", "B = A + 1", "class C:\n    x = B"], "A = 1"),
        (["from __future__ import annotations", "def f(): pass"], "from __future__ import annotations"),
        (["from m import *", "def f(): return g()"], "from m import *"),
        (["x = make()", "def f(x): return x"], ""),
        (["y = make()", "def f():\n    y = 1\n    return y"], ""),
        (["broken (", "def f(): pass"], ""),
    ],
)
def test_what_definitions_use_is_kept(cells, kept):
    code = notebooks.code(notebook(*cells), "a.ipynb")
    assert kept in code
    assert "make" not in code
    compile(code, "a.py", "exec")


# ---- hostile archives: one Problem, the others are graded


def unpackable(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def lying(declared):
    """A zip whose member declares another size than it has."""
    data = bytearray(zipped({MODULE: CODE + "#" * 5_000_000}))
    place = data.rfind(b"PK\x01\x02")
    struct.pack_into("<L", data, place + 24, declared)
    return bytes(data)


def encrypted():
    data = bytearray(zipped({MODULE: CODE}))
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def twice():
    return zipped({MODULE: CODE, "x" * len(MODULE): "x = 1\n"}).replace(b"x" * len(MODULE), MODULE.encode())


def many(count):
    return zipped({f"{number}.py": "" for number in range(count)})


def bomb():
    """Twenty megabytes of zeros that gzip packs into twenty kilobytes."""
    return tarred({"zeros.bin": "\0" * 20_000_000, MODULE: CODE})


HOSTILE = {
    "zip slip": (lambda: zipped({"../../evil.py": CODE, MODULE: CODE}), "intake.outside"),
    "an absolute path": (lambda: zipped({"/etc/cron.d/evil": CODE, MODULE: CODE}), "intake.outside"),
    "a drive": (lambda: zipped({"C:\\evil.py": CODE, MODULE: CODE}), "intake.outside"),
    "backslashes": (lambda: zipped({"..\\..\\evil.py": CODE, MODULE: CODE}), "intake.outside"),
    "tar slip": (lambda: tarred({"a/../../evil.py": CODE, MODULE: CODE}), "intake.outside"),
    "a link": (lambda: zipped({unpackable(MODULE, stat.S_IFLNK): "/etc/passwd"}), "submission.is_link"),
    "a device": (lambda: zipped({unpackable(MODULE, stat.S_IFBLK): ""}), "submission.is_device"),
    "a link in tar": (lambda: tarred({}, **{SLUG: tarfile.SYMTYPE}), "submission.is_link"),
    "a hard link in tar": (lambda: tarred({}, **{SLUG: tarfile.LNKTYPE}), "submission.is_link"),
    "a pipe in tar": (lambda: tarred({}, **{SLUG: tarfile.FIFOTYPE}), "submission.is_pipe"),
    "a device in tar": (lambda: tarred({}, **{SLUG: tarfile.CHRTYPE}), "submission.is_device"),
    "declared size": (lambda: zipped({MODULE: "#" * 2_000_000}), "submission.too_large"),
    "undeclared size": (lambda: lying(100), "intake.broken"),
    "declared 2 GB": (lambda: lying(2_000_000_000), "submission.too_large"),
    "a password": (encrypted, "intake.encrypted"),
    "one name twice": (twice, "intake.twice"),
    "too many files": (lambda: many(300), "intake.too_many"),
    "a directory too long": (lambda: many(5_000), "intake.too_many"),
    "cut": (lambda: zipped({MODULE: CODE})[:-30], "intake.broken"),
    "cut tar": (lambda: tarred({MODULE: CODE})[:-30], "intake.broken"),
    "empty": (lambda: b"", "intake.broken"),
    "noise": (lambda: bytes(range(256)) * 50, "intake.broken"),
    "gzip of nothing": (lambda: zlib.compress(b"x") + b"\x1f\x8b", "intake.broken"),
    "bzip2 of noise": (lambda: bz2.compress(bytes(range(256)) * 50), "intake.broken"),
    "7z": (lambda: b"7z\xbc\xaf\x27\x1c" + bytes(50), "intake.other_archive"),
    "rar": (lambda: b"Rar!\x1a\x07\x01\x00" + bytes(50), "intake.other_archive"),
    "xz": (lambda: tarred({MODULE: CODE}, "w:xz"), "intake.other_archive"),
    "lzma in zip": (lambda: zipped({MODULE: CODE}, compress_type=zipfile.ZIP_LZMA), "intake.broken"),
    "a tar that goes on and on": (bomb, "intake.too_long"),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("place", ["mallory.zip", "mallory/hw.zip"])
def test_a_hostile_archive_is_one_problem(found, read, here, monkeypatch, kind, place):
    monkeypatch.setattr(intake, "Opened", functools.partial(archives.Opened, limits=SMALL))
    make, key = HOSTILE[kind]
    put(here, place, make())
    if "/" in place:
        put(here, "mallory/notes.txt", "x")
    put(here, f"anna/{MODULE}")
    hand_ins = found()
    said = problem(read(hand_ins["mallory"]), key)
    assert said.verdict is Verdict.MISSING
    assert said.label == "mallory"
    submitted(read(hand_ins["anna"]))
    assert {path.name for path in here.parent.iterdir()} == {"class"}


SMALL = archives.Limits(members=200, header=200_000, stream=10_000_000)


def test_a_zip_of_zips_of_zips_is_not_followed_for_ever(found, read, here):
    data = zipped({f"{number}.txt": "0" * 10_000 for number in range(5)})
    for _ in range(6):
        data = zipped({f"{number}.zip": data for number in range(8)})
    put(here, "mallory.zip", data)
    put(here, "anna/x.txt", "x")
    assert isinstance(read(found()["mallory"]), Problem)


def test_what_nobody_needs_is_no_obstacle(found, read, here):
    """A checkpoint, a virtual environment's links, an old archive that is broken."""
    files = {MODULE: CODE, "model.pt": "0" * 3_000_000, unpackable("venv/bin/python", stat.S_IFLNK): "/usr/bin/python"}
    put(here, "anna.zip", zipped(files))
    put(here, f"ben/{MODULE}")
    put(here, "ben/old.zip", b"PK broken")
    hand_ins = found()
    assert submitted(read(hand_ins["anna"])).files == {MODULE: CODE}
    assert submitted(read(hand_ins["ben"])).files == {MODULE: CODE}


def test_a_folder_of_many_files_ends(found, read, here, monkeypatch):
    for number in range(300):
        put(here, f"mallory/{number}.txt", "")
    put(here, f"anna/{MODULE}")
    monkeypatch.setattr("grader.submissions.MOST_ENTRIES", 100)
    problem(read(found()["mallory"]), "submission.not_found")


def test_a_pipe_and_two_gigabytes_on_disk(found, read, here):
    put(here, "anna/x.txt", "x")
    os.mkfifo(here / "anna" / MODULE)
    with put(here, f"ben/{MODULE}").open("wb") as file:
        file.truncate(2_000_000_000)
    os.mkfifo(here / "cy.zip")
    hand_ins = found()
    assert set(hand_ins) == {"anna", "ben", "cy"}
    problem(read(hand_ins["anna"]), "submission.is_pipe", MODULE)
    problem(read(hand_ins["cy"]), "submission.is_pipe", "cy.zip")
    problem(read(hand_ins["ben"]), "submission.too_large", "2,000,000,000")


def test_a_class_archive_that_is_broken_is_told_to_the_instructor(found, here):
    for name in ("all.zip", "all.tar.gz"):
        with pytest.raises(Refused) as refused:
            found(put(here, name, b"PK nonsense"))
        assert name in str(refused.value)


@pytest.mark.parametrize("folder", ["exercises", SLUG, "hw"])
def test_a_link_to_the_solutions_is_not_followed(found, read, here, tmp_path, folder):
    put(tmp_path, f"solutions/{SLUG}/{MODULE}")
    put(tmp_path, f"solutions/{MODULE}")
    put(here, "mallory/notes.txt", "x")
    (here / "mallory" / folder).symlink_to(tmp_path / "solutions")
    put(here, f"anna/{MODULE}")
    assert isinstance(read(found()["mallory"]), Problem)


# ---- sections of a course, exercises above students


@pytest.mark.parametrize("packed", ["", "all", "each", "students"])
@pytest.mark.parametrize("names", [("section A", "section B"), ("CS101", "CS102"), ("计算机1班", "计算机2班")])
def test_sections_are_no_students(found, read, here, names, packed):
    """As folders, in one archive, as an archive each, and with an archive a student in them."""
    anna = {"ex02.zip": zipped({MODULE: CODE})} if packed == "students" else {MODULE: CODE}
    sections = {
        names[0]: {f"anna/{name}": content for name, content in anna.items()}
        | {f"ben/{MODULE}": CODE, f"cy/{MODULE}": CODE},
        names[1]: {f"anna/{MODULE}": CODE, f"dan/w/{MODULE}": CODE, "eve_ex02.py": CODE},
    }
    for section, files in sections.items():
        if packed == "each":
            put(here, f"{section}.zip", zipped(files))
        for name, content in files.items() if packed != "each" else ():
            put(here, f"{section}/{name}", content)
    path = here
    if packed == "all":
        path = put(
            here.parent, "all.zip", zipped({f"{s}/{n}": c for s, files in sections.items() for n, c in files.items()})
        )
    hand_ins = found(path)
    assert set(hand_ins) == {f"anna ({names[0]})", f"anna ({names[1]})", "ben", "cy", "dan", "eve"}
    assert {each.ids["section"] for each in hand_ins.values()} == set(names)
    assert all(submitted(read(each)).label == label for label, each in hand_ins.items())


def test_a_section_of_two_is_told_by_its_name(found, here):
    for name in ("Section 1/anna", "Section 1/ben", "Section 2/cy"):
        put(here, f"{name}/{MODULE}")
    assert set(found()) == {"anna", "ben", "cy"}


def test_a_download_of_a_system_for_each_section(found, read, here):
    put(here, f"Monday/Anna_1_assignsubmission_file_/{MODULE}")
    put(here, "Tuesday.zip", zipped({f"hw2/Anna_7_assignsubmission_file_/{MODULE}": CODE}))
    hand_ins = found()
    assert {label: each.layout for label, each in hand_ins.items()} == {
        "Anna (Monday)": "moodle", "Anna (Tuesday)": "moodle",
    }  # fmt: skip
    assert all(submitted(read(each)) for each in hand_ins.values())


def test_what_stands_beside_sections_is_listed(found, here):
    for name in ("section A/anna", "section A/ben", "section B/cy", "Late Dan"):
        put(here, f"{name}/{MODULE}")
    put(here, "eve_ex02.py")
    assert set(found()) == {"anna", "ben", "cy", "Late Dan", "eve"}


@pytest.mark.parametrize("drafts", [("v1", "v2"), (f"{SLUG}", "ex10_training", "ex01"), ("week 1", "week 2", "week 3")])
def test_the_folders_of_a_student_are_no_students(found, here, drafts):
    for student in ("anna", "ben", "cy"):
        for number, draft in enumerate(drafts):
            put(here, f"{student}/{draft}/{MODULE if number == 0 or 'v' in draft else OTHER}")
    assert set(found()) == {"anna", "ben", "cy"}


@pytest.mark.parametrize("folder", ["ex02", SLUG, "exercise 2", "ex02 (1)", "hw/EX2"])
@pytest.mark.parametrize("content", [CODE, "def causal_mask(:"])
def test_a_file_in_a_folder_called_by_the_exercise(found, course, here, folder, content):
    """Whatever it is called; also where it is too broken to tell by what it defines."""
    put(here, f"anna/{folder}/solution.py", content)
    put(here, "anna/ex10/solution.py", OTHER_CODE)
    put(here, "anna/ex01/test_it.py", "assert True\n")
    put(here, "ben/x.txt", "x")
    anna = found()["anna"]
    first, second, third = (anna.read(course.find(word), course) for word in ("ex02", "ex10", "ex01"))
    if content == CODE:
        assert submitted(first).main == "solution.py"
    else:
        problem(first, "submission.syntax", "solution.py")
    assert submitted(second).files == {"solution.py": OTHER_CODE}
    problem(third, "submission.not_found")


def test_the_folder_of_the_exercise_decides_between_two_files(found, read, here):
    put(here, "anna/ex02/a.py")
    put(here, "anna/old/b.py")
    put(here, "ben/x.txt", "x")
    assert submitted(read(found()["anna"])).path.name == "a.py"


@pytest.mark.parametrize("packed", ["", "all", "each"])
def test_exercises_above_students(found, course, here, packed):
    files = {
        "ex02/anna.py": CODE, "ex02/Ben.py": "def causal_mask(:", "ex02/cy_ex02.py": CODE, f"ex02/dan/{MODULE}": CODE,
        "ex10_training/anna.py": OTHER_CODE, "ex10_training/dan.zip": zipped({"work/x.py": OTHER_CODE}),
    }  # fmt: skip
    path = here
    if packed == "each":
        for folder in ("ex02", "ex10_training"):
            inside = {name.partition("/")[2]: each for name, each in files.items() if name.startswith(folder)}
            put(here, f"{folder}.zip", zipped(inside))
    for name, content in files.items() if not packed else ():
        put(here, name, content)
    if packed == "all":
        path = put(here.parent, "all.zip", zipped(files))
    hand_ins = found(path)
    assert set(hand_ins) == {"anna", "Ben", "cy", "dan"}
    ex02, ex10 = course.find("ex02"), course.find("ex10")
    for label in ("anna", "dan"):
        assert "causal_mask" in submitted(hand_ins[label].read(ex02, course)).files.popitem()[1]
        assert "train_step" in submitted(hand_ins[label].read(ex10, course)).files.popitem()[1]
    problem(hand_ins["Ben"].read(ex02, course), "submission.syntax", "Ben.py")
    assert hand_ins["cy"].read(ex10, course).absent


@pytest.mark.parametrize("packed", [False, True])
def test_a_download_for_each_exercise(found, course, here, packed):
    """Canvas has the same number for a student everywhere, Moodle another one in each."""
    for folder, module, code in (("ex02", MODULE, CODE), ("ex10", OTHER, OTHER_CODE)):
        files = {f"anna_7_{len(folder + module)}_{module}": code, f"wei_8_9_{module}": code}
        for name, content in files.items() if not packed else ():
            put(here, f"{folder}/{name}", content)
        if packed:
            put(here, f"{folder}.zip", zipped(files))
    hand_ins = found()
    assert set(hand_ins) == {"anna", "wei"}
    assert hand_ins["anna"].ids["canvas_user"] == "7"
    assert all(submitted(each.read(course.find(w), course)) for each in hand_ins.values() for w in ("ex02", "ex10"))


def test_two_of_one_name_below_an_exercise_stay_two(found, here):
    for folder in ("ex02", "ex10"):
        for number in (1, 2):
            put(here, f"{folder}/Wei Li_{number}{len(folder)}_assignsubmission_file_/x.py", CODE)
    assert len(found()) == 4


def test_a_stub_beside_the_students_of_an_exercise(found, here):
    for name in ("anna", "ben", "cy"):
        put(here, f"ex02/{name}/{MODULE}")
    put(here, f"ex02/{MODULE}", "def causal_mask(T): ...\n")
    assert {"anna", "ben", "cy"} <= set(found())


@pytest.mark.parametrize("folder", ["exercises/", ""])
def test_a_students_own_exercises_are_one_hand_in(found, here, folder):
    """With helper modules, drafts and what the course has put there."""
    for slug, module in ((SLUG, MODULE), ("ex10_training", OTHER)):
        put(here, f"{folder}{slug}/{module}")
        put(here, f"{folder}{slug}/layers.py", "x = 1\n")
        put(here, f"{folder}{slug}/old/{module}")
        put(here, f"{folder}{slug}/properties.py", "x = 1\n")
    assert set(found()) == {"class"}


# ---- nothing vanishes in silence


def test_links_in_place_of_students_are_refused_and_listed(found, read, here, tmp_path):
    put(tmp_path, f"real/{MODULE}")
    put(here, f"anna/{MODULE}")
    (here / "ben").symlink_to(tmp_path / "real")
    (here / "cy.py").symlink_to(tmp_path / "real" / MODULE)
    (here / "dan.zip").symlink_to(tmp_path / "nowhere")
    (here / "notes.txt").symlink_to(tmp_path / "real")
    (here / "eve").mkdir()
    (here / "eve" / "work").symlink_to(tmp_path / "real")
    hand_ins = found()
    assert set(hand_ins) == {"anna", "ben", "cy", "dan", "eve"}
    problem(read(hand_ins["ben"]), "intake.folder_is_link", "class/ben")
    problem(read(hand_ins["cy"]), "submission.is_link", "class/cy.py")
    problem(read(hand_ins["dan"]), "submission.is_link", "class/dan.zip")
    assert not problem(read(hand_ins["eve"]), "intake.folder_is_link", "class/eve/work").absent
    submitted(read(hand_ins["anna"]))


@pytest.mark.parametrize(
    "beside", ["Anna_1_assignsubmission_file_/ex02.py", "anna_1_2_ex02.py", "submission_metadata.yml"]
)
def test_links_and_files_beside_recognised_students_are_listed(found, here, tmp_path, beside):
    put(here, beside)
    put(here, "Ben_ex02.py")
    put(here, "cy.zip", zipped({MODULE: CODE}))
    (here / "dan").symlink_to(tmp_path)
    assert {"Ben", "cy", "dan"} <= set(found())


@pytest.mark.parametrize("name", ["Ben_ex02.py.txt", "Ben - exercise 2.pdf", "Ben_causal_mask.DOCX", "Ben.py.txt"])
def test_code_that_is_no_python_file_is_listed(found, read, here, name):
    put(here, f"anna/{MODULE}")
    put(here, name)
    put(here, "roster.txt", "x")
    hand_ins = found()
    assert set(hand_ins) == {"anna", "Ben"}
    problem(read(hand_ins["Ben"]), "intake.as_text", name)


def test_files_that_count_for_nothing_are_listed(course, here):
    put(here, f"anna/{MODULE}", f"import parts\n{CODE}")
    put(here, "anna/parts.py", "x = 1\n")
    put(here, f"anna/old/{MODULE}", "x = 1\n")
    put(here, "ben/homework1.py", "x = 1\n")
    put(here, "ben/work.zip", zipped({"hw/homework2.ipynb": notebook("x = 1"), "ex10.py.txt": "x"}))
    put(here, "ben/README.md", "x")
    put(here, "cy/ex02.py", "def (")
    rows = {row.hand_in.label: row for row in intake.describe(intake.hand_ins(here, course), course.exercises, course)}
    assert list(rows["ben"].left) == ["homework1.py", "work.zip/ex10.py.txt", "work.zip/hw/homework2.ipynb"]
    assert list(rows["anna"].left) == [f"old/{MODULE}"]  # it travels, and nothing imports it
    assert (list(rows["cy"].left), rows["cy"].problems[SLUG].key) == ([], "submission.syntax")


# ---- names


@pytest.mark.parametrize("encoding", ["gbk", "utf-8", "cp437"])
def test_names_in_a_zip_that_are_not_marked_as_utf8(found, read, here, encoding):
    label = "Müller" if encoding == "cp437" else "王小明"
    raw = f"{label}/{MODULE}".encode(encoding)
    placeholder = "x" * len(raw)
    data = zipped({placeholder: CODE, "ben/x.txt": "x"}).replace(placeholder.encode(), raw)
    hand_ins = found(put(here, "all.zip", data))
    assert set(hand_ins) == {label, "ben"}
    submitted(read(hand_ins[label]))


def test_the_unicode_name_that_some_packers_add(found, here):
    info = zipfile.ZipInfo(f"wang/{MODULE}")
    name = f"王/{MODULE}".encode()
    info.extra = struct.pack("<HHBL", 0x7075, 5 + len(name), 1, zlib.crc32(info.filename.encode())) + name
    assert set(found(put(here, "all.zip", zipped({info: CODE, "ben/x.txt": "x"})))) == {"王", "ben"}


def test_a_file_name_on_disk_that_is_not_utf8(found, read, here):
    put(here, f"ben/{MODULE}")
    for name in (MODULE.encode(), b"\xff\xff.py"):
        put(here, os.fsdecode("王小明/".encode("gbk") + name))
    submission = submitted(read(found()["王小明"]))
    assert all(name.encode("utf-8") for name in submission.files)
    assert readable("\udcff") == "\\xff"


any_name = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="/\\:"), min_size=1, max_size=40
)
student_names = any_name.map(str.strip).filter(
    lambda name: archives.unpacked_name(name) == name and name[:1] not in ("", ".")
)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.sets(student_names, min_size=2, max_size=4))
def test_every_name_comes_back_unharmed(course, tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    files = {f"{name}_{number}_assignsubmission_file_/{MODULE}": CODE for number, name in enumerate(sorted(names))}
    hand_ins = intake.hand_ins(put(folder, "all.zip", zipped(files)), course)
    ids = {f"{number}": name for number, name in enumerate(sorted(names))}
    for each in hand_ins:
        assert each.label.startswith(ids[each.ids["moodle_participant"]])
        assert isinstance(each.read(course.find(SLUG), course), Submission)
    assert len({each.label for each in hand_ins}) == len(names)
    assert len({each.folder.casefold() for each in hand_ins}) == len(names)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text(max_size=80))
def test_a_folder_name_that_every_file_system_takes(label):
    name = intake.safe_name(label)
    assert name.strip(". ") == name != ""
    assert len(name.encode()) <= 130
    assert not set(name) & set('<>:"/\\|?*\0\n ')
    assert not intake.RESERVED.fullmatch(name)
    assert not name.startswith("-")


def test_folders_do_not_meet(found, here):
    for name in ("Anna", "anna", "a b", "a_b", "CON", "😀", "🎉"):
        put(here, f"{name}/{MODULE}")
    hand_ins = found().values()
    assert len({each.folder.casefold() for each in hand_ins}) == 7
    assert {each.folder for each in found().values()} == {each.folder for each in hand_ins}


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ex02_causal_mask.py", ""), ("ex2.py", ""), ("EX02 (1).py", ""), ("ex02_causal_mask copy.ipynb", ""),
        ("ex02.zip", ""), ("anna_ex02.py", "anna"), ("ex02-anna.py", "anna"), ("李雷_causal_mask.py", "李雷"),
        ("ex02_causal_mask_Anna Li.py", "Anna Li"), ("anna.py", "anna"), ("index20.py", "index20"),
    ],
)  # fmt: skip
def test_whose_a_file_is(course, name, student):
    assert places.owner(name, course) == student


# ---- for a dry run, and for other processes


def test_a_dry_run_says_who_is_who_and_what_is_missing(course, here):
    put(here, "Anna_1_assignsubmission_file_/ex02_mine.py")
    put(here, f"Ben_2_assignsubmission_file_/{OTHER}", OTHER_CODE)
    rows = {row.hand_in.label: row for row in intake.describe(intake.hand_ins(here, course), course.exercises, course)}
    anna, ben = rows["Anna"], rows["Ben"]
    assert anna.files[SLUG] == "class/Anna_1_assignsubmission_file_/ex02_mine.py"
    assert "ex02_mine.py" in anna.notes[SLUG][0].sentence("en")
    assert set(anna.missing) == {exercise.slug for exercise in course.exercises} - {SLUG}
    assert "ex10_training" in ben.files
    assert anna.hand_in.layout == "moodle"


def test_a_hand_in_travels_to_another_process(found, read, here):
    put(here, "anna.zip", zipped({MODULE: CODE}))
    put(here, "ben.zip", b"broken")
    for each in found().values():
        copy = pickle.loads(pickle.dumps(each))
        assert type(read(copy)) is type(read(each))


def test_a_changed_archive_is_read_anew(found, read, here):
    put(here, "anna.zip", b"broken")
    put(here, "ben/x.txt", "x")
    problem(read(found()["anna"]), "intake.broken")
    put(here, "anna.zip", zipped({MODULE: CODE}))
    submitted(read(found()["anna"]))


def test_every_layout_has_a_name_in_both_languages():
    for layout in intake.LAYOUTS:
        assert text(f"intake.layout.{layout}", "zh") != text(f"intake.layout.{layout}", "en")


def test_every_sentence_of_the_intake_has_a_test():
    tested = Path(__file__).read_text(encoding="utf-8")
    keys = {key for key in catalogue() if key.startswith("intake.") and not key.startswith("intake.layout.")}
    seen_by_instructors = {"intake.no_path", "intake.is_file", "intake.nothing"}  # tested above by what they say
    assert {key for key in keys - seen_by_instructors if key not in tested} == set()
