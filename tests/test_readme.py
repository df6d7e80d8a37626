"""The README's transcripts are run. `python tests/test_readme.py` writes them anew."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh.md")
TRANSCRIPT = re.compile(r"(?<=```console\n)(.*?)(?=```\n)", re.DOTALL)


def played(transcript: str, folder: Path) -> str:
    """The transcript's commands with what they print in `folder`."""
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    ours = ("GRADE_COURSE", "GRADE_LANG", "FORCE_COLOR")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    lines = []
    for command in re.findall(r"^\$ (.*)$", transcript, re.MULTILINE):
        program = command.replace("grade", f"{sys.executable} -m grader", 1)
        answer = subprocess.run(program, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert answer.stderr == ""
        lines += [f"$ {command}", *(line.rstrip() for line in answer.stdout.splitlines()), ""]
    return "\n".join(lines[:-1]) + "\n"


@pytest.mark.parametrize("name", READMES)
def test_the_transcripts_are_what_happens(name, tmp_path):
    transcripts = TRANSCRIPT.findall((ROOT / name).read_text(encoding="utf-8"))
    assert transcripts
    for transcript in transcripts:
        assert played(transcript, tmp_path) == transcript


def test_both_languages_run_the_same_commands():
    command = re.compile(r"^(?:\$ )?(?:grade|make|pip) [^#\n]*", re.MULTILINE)
    commands = [command.findall((ROOT / name).read_text(encoding="utf-8")) for name in READMES]
    english, chinese = ([command.replace(" --lang zh", "").strip() for command in found] for found in commands)
    assert english == chinese


def test_the_links_lead_somewhere():
    for name in (*READMES, "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{name} links to {target}"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as empty:
        for readme in (ROOT / name for name in READMES):
            content = readme.read_text(encoding="utf-8")
            readme.write_text(TRANSCRIPT.sub(lambda found: played(found[1], Path(empty)), content), encoding="utf-8")
