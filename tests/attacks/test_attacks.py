"""Hostile submissions, one worker each, against a folder of fixtures: nothing leaks, nothing changes, nothing stays."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from grader import isolation, wire
from grader.isolation import Limits, Unavailable, WorkerEnded
from grader.messages import text
from grader.results import Verdict
from grader.worker import lockdown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lock-down is Linux's")

SUBMISSIONS = Path(__file__).parent / "submissions"
GRADER = Path(isolation.__file__).parents[1]
LIMITS = Limits(
    cpu_seconds_per_call=2.0,  # a busy machine takes more than one second to hand out all the memory allowed
    wall_seconds_per_call=20,
    memory_bytes=1 << 28,
    output_bytes_kept=20_000,
    output_bytes_max=8 << 20,
)
MARKER = "the secret of the course"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the solutions and the results would be."""
    made = tmp_path_factory.mktemp("course")
    (made / "solutions").mkdir()
    (made / "solutions" / "marker.txt").write_text(MARKER)
    (made / "results.json").write_text('{"score": 0}')
    return made


@pytest.fixture(scope="module")
def zygote(folder):
    with isolation.start(LIMITS, hidden=[folder]) as made:
        yield made


@pytest.fixture
def attack(zygote, folder):
    """Runs one function of a hostile submission; afterwards all is as it was, and an ordinary one is answered."""

    def run(name, function, argument=None, then=(), wall=None):
        with zygote.worker() as worker:
            worker.ask(wire.Load({"hostile.py": (SUBMISSIONS / f"{name}.py").read_text("utf-8")}, "hostile.py"))
            try:
                replies = [worker.ask(wire.Call(name=function, args=[argument]), wall)]
                for pause in then:
                    time.sleep(pause)
                    replies.append(worker.ask(wire.Call(name=function, args=[argument])))
                return replies[-1]
            except WorkerEnded as ended:
                return ended
            finally:
                run.output = worker.take_output()

    before = _state(folder)
    yield run
    assert _state(folder) == before
    assert _children(zygote) == []
    with zygote.worker() as worker:
        worker.ask(wire.Load({"honest.py": "def twice(x):\n    return x + x\n"}, "honest.py"))
        assert worker.ask(wire.Call(name="twice", args=[torch.ones(2)])).value.tolist() == [2, 2]


def _state(folder):
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.is_file() and path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
    }


def _children(zygote):
    """Processes whose parent is the zygote."""
    parent = str(zygote.process.pid)
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if entry.read_text().rpartition(")")[2].split()[1] == parent:
                found.append(int(entry.parent.name))
    return found


def functions(name):
    """The attacks of a file: its public functions."""
    spec = importlib.util.spec_from_file_location(f"attacks_{name}", SUBMISSIONS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hidden = {"tried", "outcome", "call"}
    own = (f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__ and f.__name__[0] != "_")
    return [f.__name__ for f in own if f.__name__ not in hidden]


@pytest.mark.parametrize("function", functions("denied"))
def test_what_reaches_outside_is_denied(attack, folder, function):
    argument = str(GRADER if function == "reads_what_the_grader_is_made_of" else folder)
    answer = attack("denied", function, argument)
    assert isinstance(answer, wire.Answer), answer
    assert answer.value
    assert [outcome for outcome in answer.value if not outcome.startswith("denied")] == []
    assert MARKER not in attack.output[0]


def test_a_refusal_is_an_ordinary_permission_error(attack, folder):
    assert attack("denied", "reads_the_solutions", str(folder)).value[0] == "denied"


ENDS = {
    "exits": (Verdict.EXITED, {"code": 0}),
    "segfaults": (Verdict.EXITED, {"signal": "SIGSEGV"}),
    "aborts": (Verdict.EXITED, {"signal": "SIGABRT"}),
    "kills_itself": (Verdict.OUT_OF_MEMORY, {"signal": "SIGKILL"}),
    "loops": (Verdict.TIMEOUT, {"clock": "cpu", "limit": 2.0}),
    "loops_and_ignores_everything": (Verdict.TIMEOUT, {"clock": "cpu"}),
    "loops_in_cpp": (Verdict.TIMEOUT, {"clock": "cpu"}),
    "sleeps": (Verdict.TIMEOUT, {"clock": "wall", "limit": 1.0}),
    "stops_itself": (Verdict.TIMEOUT, {"clock": "wall"}),
    "hangs_up": (Verdict.TAMPERED, {"cause": "hung up"}),
    "floods": (Verdict.OUTPUT_FLOOD, {"limit": 8 << 20}),
    "floods_stderr_by_descriptor": (Verdict.OUTPUT_FLOOD, {}),
}


@pytest.mark.parametrize(("function", "verdict", "detail"), [(name, *expected) for name, expected in ENDS.items()])
def test_an_ending_has_its_verdict(attack, function, verdict, detail):
    ended = attack("ends", function, wall=1.0 if detail.get("clock") == "wall" else None)
    assert isinstance(ended, WorkerEnded), ended
    assert (ended.verdict, ended.detail["call"]) == (verdict, function)
    assert {key: ended.detail[key] for key in detail} == detail
    assert ended.detail["seconds"] < LIMITS.wall_seconds_per_call
    assert len(attack.output[0]) <= LIMITS.output_bytes_kept


def test_an_exit_between_two_calls_is_noticed_at_the_next(attack):
    ended = attack("ends", "exits_later", then=[0.3])
    assert (ended.verdict, ended.detail["code"]) == (Verdict.EXITED, 7)


def test_system_exit_is_raised(attack):
    raised = attack("ends", "raises_system_exit")
    assert (raised.type, raised.frames[-1].function) == ("SystemExit", "raises_system_exit")


def test_an_exit_in_a_destructor_changes_nothing(attack):
    assert attack("ends", "exits_in_a_destructor").value == 1


def test_endless_recursion_is_raised(attack):
    raised = attack("ends", "recurses", 1)
    assert raised.type == "RecursionError"
    assert len(raised.frames) == wire.FRAMES_MAX


@pytest.mark.parametrize(
    ("function", "type"),
    [
        ("allocates_bytes", "MemoryError"),
        ("asks_for_too_much_at_once", "RuntimeError"),
        ("touches_tensors", "RuntimeError"),
        ("shares_memory", "OSError"),
    ],
)
def test_memory_is_bounded(attack, function, type):
    answer = attack("bounded", function)
    assert isinstance(answer, wire.Raised), answer
    assert answer.type in (type, "MemoryError")


def test_threads_are_bounded(attack):
    ended = attack("bounded", "starts_threads")
    if isinstance(ended, wire.Raised):  # the memory limit was faster
        assert ended.type == "RuntimeError"
    else:
        assert (ended.verdict, ended.detail["cause"]) == (Verdict.OUT_OF_MEMORY, "threads")


def test_descriptors_are_bounded(attack):
    count, error = attack("bounded", "opens_descriptors").value
    assert count <= LIMITS.open_files
    assert error == "OSError"


def test_prints_are_cut_and_said_to_be(attack):
    assert attack("bounded", "prints_a_lot").value == 1
    assert attack.output == ("z" * LIMITS.output_bytes_kept, True)


@pytest.mark.parametrize("function", ["answers_much", "answers_much_in_parts", "answers_many"])
def test_a_huge_answer_is_opaque(attack, function):
    answer = attack("bounded", function)
    if isinstance(answer, wire.Raised):
        assert answer.type in ("MemoryError", "RuntimeError")
    else:
        assert isinstance(answer.value, wire.Opaque)


def test_a_long_message_is_cut(attack):
    raised = attack("bounded", "raises_a_long_text")
    assert (raised.type, len(raised.message)) == ("ValueError", wire.MESSAGE_MAX)


TAMPERED = [
    *("writes_garbage", "claims_a_huge_length", "nests_deeply", "overflows", "has_negative_sizes", "has_bool_sizes"),
    *("has_float_sizes", "has_a_stride", "reads_past_the_end", "leaves_bytes_over", "leaves_payload_over"),
    *("adds_a_score", "invents_a_message", "sends_a_pickle"),
]


@pytest.mark.parametrize("function", TAMPERED)
def test_a_forged_frame_is_tampering(attack, function):
    ended = attack("forged", function)
    assert isinstance(ended, WorkerEnded), ended
    assert ended.verdict is Verdict.TAMPERED


@pytest.mark.parametrize(("function", "pauses"), [("answers_twice", [0.1]), ("speaks_early", [0.3])])
def test_an_answer_that_nobody_asked_for_is_tampering(attack, function, pauses):
    ended = attack("forged", function, then=pauses)
    assert isinstance(ended, WorkerEnded), ended
    assert ended.verdict is Verdict.TAMPERED


def test_a_slow_drip_is_a_timeout(attack):
    assert attack("forged", "drips", wall=1.0).verdict is Verdict.TIMEOUT


def test_not_a_number_stays_not_a_number(attack):
    assert attack("forged", "answers_not_a_number").value.isnan().all()


def test_patches_stay_in_the_worker(attack):
    answer = attack("forged", "patches_what_compares").value
    assert answer.shape == (2, 3)
    assert not torch.equal(answer, torch.ones(2, 3))


def test_there_is_no_answer_to_be_found_in_the_worker(attack):
    secret = torch.arange(777.0)
    assert attack("forged", "searches_for_answers", 1).value == [[], 0, 0]
    assert secret.numel() == 777


def test_hooks_left_behind_change_nothing(attack):
    assert attack("forged", "leaves_hooks", then=[0]).value == 1


def test_inputs_are_copies(attack):
    given = torch.ones(2)
    assert attack("forged", "changes_its_input", given).value.tolist() == [2, 2]
    assert given.tolist() == [1, 1]


def test_files_beside_the_submission_shadow_nothing(zygote):
    hostile = "raise SystemExit('imported')\n"
    beside = dict.fromkeys(("torch.py", "sitecustomize.py", "conftest.py", "grader.py", "random.py"), hostile)
    source = (
        "import random, torch\nimport helper\ndef answer():\n    return [torch.ones(1), helper.X, random.__name__]\n"
    )
    with zygote.worker() as worker:
        worker.ask(wire.Load({**beside, "ex.py": source, "helper.py": "X = 5\n", "x.pth": "import os"}, "ex.py"))
        assert worker.ask(wire.Call(name="answer")).value[1:] == [5, "random"]


def test_a_submission_named_like_a_library_is_its_own(zygote):
    with zygote.worker() as worker:
        worker.ask(wire.Load({"torch.py": "import torch\ndef answer():\n    return torch.ones(2)\n"}, "torch.py"))
        assert worker.ask(wire.Call(name="answer")).value.tolist() == [1, 1]


def test_a_killed_zygote_is_started_again(folder):
    with isolation.start(LIMITS, hidden=[folder]) as made, made.worker() as worker:
        os.kill(made.process.pid, signal.SIGKILL)
        made.process.wait()
        with pytest.raises(WorkerEnded) as caught:
            worker.ask(wire.Forget())
        assert caught.value.verdict is Verdict.GRADER_ERROR
        with made.worker() as again:
            assert isinstance(again.ask(wire.Forget()), wire.Answer)


def test_nothing_survives_a_killed_judge(tmp_path):
    script = tmp_path / "judge.py"
    script.write_text(
        "import time\nfrom grader import isolation, wire\n"
        "zygote = isolation.start()\nworker = zygote.worker()\n"
        "worker.ask(wire.Load({'x.py': 'import threading\\ndef spin():\\n    while True: pass\\n"
        "threading.Thread(target=spin, daemon=True).start()'}, 'x.py'))\n"
        "print(zygote.process.pid, worker._process.pid, flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(GRADER.parent), "OMP_NUM_THREADS": "1"}
    judge = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    pids = [int(pid) for pid in judge.stdout.readline().split()]
    judge.kill()
    judge.communicate()
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in pids if _runs(pid)] == []


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("layer", lockdown.LAYERS)
def test_a_missing_layer_is_refused_where_all_are_required(zygote, layer, monkeypatch):
    monkeypatch.setattr(zygote, "mode", "require")
    zygote.worker().close()
    monkeypatch.setattr(zygote, "without", [layer])
    with pytest.raises(Unavailable, match=text(f"report.layer_name.{layer}", "en")) as caught:
        zygote.worker()
    assert caught.value.isolation.level == isolation.LIMITS_ONLY
    assert len(caught.value.isolation.not_prevented) == 4
    assert _children(zygote) == []
