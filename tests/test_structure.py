"""Imports point one way. What untrusted code can see of ours is the wire."""

import ast
import graphlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import grader
from grader.exercises import Course

PACKAGE = Path(grader.__file__).parent
ONE_WAY = ("cli", "grading", "bench", "judge", "properties", "claims", "subject", "wire")
ALONE = ("results", "wire", "mistakes", "messages", "cases")  # these import nothing of ours


@cache
def modules() -> dict[str, Path]:
    """Dotted names below `grader`, such as "worker.serve"."""
    named = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] != "course":  # the exercises of an installed package are data
            named[".".join(parts).removesuffix(".__init__").replace("__init__", "")] = path
    return named


@cache
def imports() -> dict[str, set[str]]:
    """Module -> what it imports of ours, anywhere in the file."""
    return {name: set(_imported(path)) for name, path in modules().items()}


def _imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import; write grader.x"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            below = name.removeprefix("grader.")
            if below != name:
                yield below if below in modules() else below.rpartition(".")[0]


def reached(name: str) -> set[str]:
    found, todo = set(), [name]
    while todo:
        for each in imports()[todo.pop()] - found:
            found.add(each)
            todo.append(each)
    return found


def test_no_import_goes_round_in_a_circle():
    graphlib.TopologicalSorter(imports()).prepare()


@pytest.mark.parametrize("name", ONE_WAY[1:])
def test_imports_point_one_way(name):
    above = set(ONE_WAY[: ONE_WAY.index(name)])
    assert reached(name) & above == set()


@pytest.mark.parametrize("name", ALONE)
def test_some_import_nothing_of_ours(name):
    assert reached(name) == set()


def test_the_worker_imports_the_wire_alone():
    for name in modules():
        if name.split(".")[0] == "worker":
            assert {each for each in reached(name) if each.split(".")[0] != "worker"} <= {"wire", ""}, name


def test_a_started_worker_holds_nothing_of_the_judge():
    """What the zygote imports is what a submission finds in sys.modules."""
    ask = "import sys, grader.worker.zygote, grader.worker.serve\nprint(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True).stdout.split()
    ours = {name for name in answer if re.match(r"grader\b(?!\.worker)", name)}
    assert ours <= {"grader", "grader.wire"}
    assert not {"hypothesis", "pytest", "_pytest", "jinja2", "click", "course"} & set(answer)


def test_reporters_import_results_and_messages():
    for name in modules():
        if name.split(".")[0] == "reporters":
            others = {each for each in imports()[name] if each.split(".")[0] != "reporters"}
            assert others <= {"results", "messages"}, name


def test_only_main_imports_the_command_line():
    assert [name for name, found in imports().items() if "cli" in found] == ["__main__"]


def test_the_engine_knows_no_exercise():
    slugs = {exercise.slug for exercise in Course.open().exercises}
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        owners = (ast.Module, ast.FunctionDef, ast.ClassDef)
        docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, owners)}
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} - docstrings
        assert not [text for text in texts if isinstance(text, str) and any(slug in text for slug in slugs)], name


def test_no_file_is_called_by_a_name_that_says_nothing():
    bad = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert not {name for name in modules() if name.split(".")[-1] in bad}
