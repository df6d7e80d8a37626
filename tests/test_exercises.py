"""Courses, exercises, stubs, mistakes."""

import ast
import shutil
import sys

import pytest
from paper_course import REFERENCES, write_course

from grader.exercises import Course, CourseError, Question, UnknownExercise, load_module, stub_from_reference
from grader.mistakes import Mistake, StaleMistake


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path)


def test_order_comes_from_the_numbers(course):
    assert [exercise.id for exercise in course.exercises] == ["ex01", "ex02", "ex10"]
    assert course.after(course.exercises[0]) is course.exercises[1]
    assert course.after(course.exercises[-1]) is None


@pytest.mark.parametrize(
    "word",
    [
        "ex2",
        "ex02",
        "2",
        "02",
        "EX02",
        "ex02_causal_mask",
        "causal_mask",
        "causal-mask",
        "ex02_causal_mask.py",
        "ex02_causal_mask/",
    ],
)
def test_every_spelling_finds_the_exercise(course, word):
    assert course.find(word).slug == "ex02_causal_mask"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_near_miss_is_asked_about(course, lang):
    with pytest.raises(UnknownExercise) as caught:
        course.find("casual_mask")
    assert "ex02_causal_mask" in caught.value.sentence(lang)


@pytest.mark.parametrize("word", ["ex99", "99", "", "nonsense"])
def test_an_unknown_exercise_names_the_known_ones(course, word):
    with pytest.raises(UnknownExercise, match=r"ex01 \.\. ex10"):
        course.find(word)


def test_the_environment_chooses_the_course(course, monkeypatch):
    monkeypatch.setenv("GRADE_COURSE", str(course.folder))
    assert Course.open().exercises == course.exercises


def test_a_folder_without_exercises_is_no_course(tmp_path):
    with pytest.raises(CourseError, match="no folder `exercises`"):
        Course.open(tmp_path)
    (tmp_path / "exercises").mkdir()
    with pytest.raises(CourseError, match="holds no exercise"):
        Course.open(tmp_path)


def test_a_student_edition_has_no_reference(course):
    shutil.rmtree(course.folder / "solutions")
    exercise = Course.open(course.folder).exercises[0]
    assert (exercise.solution, exercise.reference, exercise.variants, exercise.mistakes()) == (None, None, {}, [])
    assert list(exercise.defects()) == []
    with pytest.raises(CourseError, match="student edition"):
        exercise.stub_from_reference()


def test_texts_come_in_both_languages(course):
    exercise = course.exercises[0]
    assert exercise.title("zh") == "ex01_double 的中文标题"
    assert exercise.look("shape", "en") == "Look at the axes."
    assert exercise.statement("shape", "zh") == "形状不变。"
    assert exercise.hints("zh")[0] == "轻轻一点。"
    assert exercise.lesson("zh").startswith("# ex01_double 讲义")
    assert exercise.message("too_few", "zh") == "太少：{count}"
    with pytest.raises(CourseError, match=r"\[messages.other\]"):
        exercise.message("other", "en")


# ---- stubs


def test_a_stub_keeps_the_task_and_drops_the_answer():
    stub = stub_from_reference(REFERENCES["ex01_double"], "ex01")
    compile(stub, "stub", "exec")
    assert 'raise NotImplementedError("ex01: double is not implemented yet")' in stub
    assert 'raise NotImplementedError("ex01: Twice.__init__ is not implemented yet")' in stub
    assert "super().__init__()" in stub
    assert "SOLUTION" not in stub
    assert "2 * x" not in stub


def test_a_stub_names_the_same_things_as_its_reference():
    def shape(source):
        kinds = (ast.FunctionDef, ast.ClassDef)
        return [
            (node.name, ast.unparse(node.args) if hasattr(node, "args") else "")
            for node in ast.walk(ast.parse(source))
            if isinstance(node, kinds)
        ]

    for reference in REFERENCES.values():
        assert shape(stub_from_reference(reference, "ex01")) == shape(reference)


@pytest.mark.parametrize(
    "lines", ["# BEGIN SOLUTION\n", "# END SOLUTION\n", "# BEGIN SOLUTION\n# BEGIN SOLUTION\n# END SOLUTION\n"]
)
def test_unpaired_markers_are_a_defect_of_the_course(lines):
    with pytest.raises(CourseError, match="in pairs"):
        stub_from_reference(lines, "ex01", where="ex01.py")


# ---- defects


def test_a_sound_course_has_no_defects(course):
    assert [defect.sentence("en") for exercise in course.exercises for defect in exercise.defects()] == []


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("exercise.toml", 'zh = "ex01_double 的中文标题"', "", "[title] zh"),
        ("exercise.toml", '[[hints]]\nen = "More."\nzh = "再多一点。"\n', "", "three hints"),
        ("exercise.toml", 'kind = "number"', 'kind = "essay"', "essay"),
        ("exercise.toml", 'answer = "b"', 'answer = "c"', "exactly one choice"),
        ("exercise.toml", "[title]", "[title", "cannot be loaded"),
        ("ex01_double.py", "twice x", "thrice x", "grade author stubs"),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_defect_says_what_where_and_what_next(course, file, old, new, said, lang):
    exercise = course.exercises[0]
    path = exercise.folder / file
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new), encoding="utf-8")
    sentences = [defect.sentence(lang) for defect in Course.open(course.folder).exercises[0].defects()]
    assert any(file in sentence for sentence in sentences)
    assert lang == "zh" or any(said in sentence for sentence in sentences), sentences


@pytest.mark.parametrize("name", ["README.zh.md", "properties.py", "exercise.toml", "ex01_double.py"])
def test_a_missing_file_is_a_defect(course, name):
    (course.exercises[0].folder / name).unlink()
    assert any(name in str(defect) for defect in course.exercises[0].defects())


# ---- the one door


def test_a_module_is_loaded_by_path_and_leaves_nothing_behind(course):
    before = list(sys.path)
    module = course.exercises[0].properties()
    assert module.__file__ == str(course.exercises[0].folder / "properties.py")
    assert sys.path == before
    assert not list(course.folder.rglob("__pycache__"))


@pytest.mark.parametrize("content", ["1 / 0", "import nothing_of_that_name", "def f(:", "\0"])
def test_a_broken_file_of_the_course_is_one_sentence(tmp_path, content):
    path = tmp_path / "properties.py"
    path.write_text(content)
    with pytest.raises(CourseError, match="cannot be loaded"):
        load_module(path, "broken")
    assert "broken" not in sys.modules


def test_a_missing_file_of_the_course_is_one_sentence(tmp_path):
    with pytest.raises(CourseError, match="is missing"):
        load_module(tmp_path / "properties.py", "absent")


# ---- mistakes


def test_a_mistake_is_the_reference_with_one_thing_changed(course):
    exercise = course.exercises[0]
    (mistake,) = exercise.mistakes()
    assert mistake.apply(exercise.reference) == exercise.reference.replace("2 * x", "3 * x")
    assert (mistake.says("zh"), mistake.why("en")) == ("三倍", "why")


@pytest.mark.parametrize("source", ["a b", "x a a"])
def test_a_mistake_that_does_not_match_once_is_stale(source):
    mistake = Mistake("m", edits=[("x", "y"), ("a", "b")], caught_by="p", en=("", ""), zh=("", ""))
    with pytest.raises(StaleMistake, match="exactly once"):
        mistake.apply(source)


@pytest.mark.parametrize("given", [{}, {"old": "a"}, {"new": "b"}, {"old": "a", "new": "b", "edits": [("c", "d")]}])
def test_a_mistake_takes_one_form(given):
    with pytest.raises(TypeError, match="either old"):
        Mistake("m", caught_by="p", en=("", ""), zh=("", ""), **given)


def test_a_file_without_mistakes_is_a_defect(course):
    (course.exercises[0].solution / "mistakes.py").write_text("MISTAKES = [1]\n")
    with pytest.raises(CourseError, match="MISTAKES"):
        course.exercises[0].mistakes()


# ---- quiz


@pytest.mark.parametrize(
    ("kind", "answer", "choices", "given", "accepted"),
    [
        ("number", "1024", (), " 1,024 ", True),
        ("number", "1024", (), "1024.0", True),
        ("number", "0.5", (), ".5", True),
        ("number", "1024", (), "1023", False),
        ("number", "1024", (), "many", False),
        ("shape", "[2, 3, 5]", (), "2,3,5", True),
        ("shape", "[2, 3, 5]", (), "(2, 3, 5)", True),
        ("shape", "[2, 3, 5]", (), "［2，3，5］", True),
        ("shape", "[B, 1, 1, T]", (), "[b,1,1,t]", True),
        ("shape", "[2, 3, 5]", (), "[2, 5, 3]", False),
        ("choice", "b", ("rows", "keys"), "B", True),
        ("choice", "b", ("rows", "keys"), "keys", True),
        ("choice", "keys", ("rows", "keys"), "b", True),
        ("choice", "b", ("rows", "keys"), "a", False),
        ("choice", "b", ("rows", "keys"), "", False),
    ],
)
def test_a_quiz_accepts_what_means_the_answer(kind, answer, choices, given, accepted):
    assert Question("?", kind, answer, choices, "").accepts(given) is accepted
