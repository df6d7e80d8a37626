"""However it is installed, `grade` works, outside the checkout too."""

import json
import os
import site
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUIET = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")

pytest.importorskip("build", reason="the extra `dev` is not installed")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist of the checkout and a wheel of that sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return {path.suffix: path for path in out.iterdir()}


def install(folder, *what):
    """A fresh environment that has `what` and, for its dependencies, sees the packages of this one."""
    venv.create(folder, with_pip=False)
    inner = next(folder.glob("lib/python*/site-packages"))
    (inner / "outer.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *QUIET, *what]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return folder / "bin" / "grade"


@pytest.mark.parametrize("way", ["wheel", "sdist", "folder", "editable"])
def test_grade_works_outside_the_checkout(way, built, tmp_path):
    what = {"wheel": [str(built[".whl"])], "sdist": [str(built[".gz"])], "folder": ["."], "editable": ["-e", "."]}[way]
    command = install(tmp_path / "env", *what)
    work = tmp_path / "work"
    work.mkdir()

    def grade(*words):
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GRADE_COURSE")}
        return subprocess.run([command, *words], cwd=work, env=env, capture_output=True, text=True, check=False)

    where = subprocess.run(
        [command.parent / "python", "-c", "import grader; print(grader.__file__)"],
        cwd=work, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert (str(ROOT) in where) is (way == "editable")
    assert grade("init", "mine", "ex01").returncode == 0
    assert (work / "mine/ex01_embedding/README.zh.md").is_file()
    answer = grade("ex01", "mine", "--report", "html:out.html")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "0 / 100" in answer.stdout
    assert (work / "out.html").stat().st_size > 1000
    assert grade("solution", "ex01", "--yes").returncode == 0


PEEK = """
import importlib.util, pathlib
package = pathlib.Path(importlib.util.find_spec("grader").origin).parent
places = (package / "course", package.parent)
found = [path for path in (place / "solutions/ex01_embedding/ex01_embedding.py" for place in places)]
def peek(path):
    try:
        return path.read_text()
    except OSError as error:
        return type(error).__name__
raise RuntimeError(", ".join(peek(path) for path in found))
"""


@pytest.mark.parametrize("way", ["wheel", "editable"])
def test_a_submission_cannot_read_the_solutions(way, built, tmp_path):
    command = install(tmp_path / "env", *{"wheel": [str(built[".whl"])], "editable": ["-e", "."]}[way])
    (tmp_path / "ex01.py").write_text(PEEK, encoding="utf-8")
    answer = subprocess.run(
        [command, "ex01", "ex01.py", "--report", "json:-"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = json.loads(answer.stdout)
    if report["isolation"]["level"] != "contained":
        pytest.skip("this machine cannot contain a submission")
    assert "PermissionError" in answer.stdout
    assert "BEGIN SOLUTION" not in answer.stdout
    assert report["score"] == 0


def test_the_numbers_of_torch_admit_the_one_that_is_tested():
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "torch>=2.6" in needs
    assert "TORCH ?= torch==2.13.0" in makefile
