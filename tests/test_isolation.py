"""Workers: ready in milliseconds, held to their limits, gone when closed; the ladder says what holds."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from grader import isolation, wire
from grader.isolation import Limits, WorkerEnded, ladder
from grader.messages import text
from grader.results import Verdict
from grader.worker import lockdown

GRADER = Path(isolation.__file__).parents[1]
LIMITS = Limits(cpu_seconds_per_call=0.5, wall_seconds_per_call=20, output_bytes_kept=1000, output_bytes_max=1 << 20)
SOURCE = """
import os, time
import torch
from torch import nn

def twice(x):
    return x + x

def says(words):
    print(words)
    return words

def exits(code):
    os._exit(code)

def loops():
    while True:
        pass

def floods():
    while True:
        print("x" * 1000)

def forges():
    os.write(3, b"x" * 100)
    time.sleep(100)

def reads(path):
    with open(path, "rb") as file:
        return len(file.read())

def size_of(x):
    return x.numel()
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the lock-down is Linux's")


def loaded(worker, source=SOURCE):
    reply = worker.ask(wire.Load({"ex.py": source}, "ex.py"))
    assert isinstance(reply, wire.Loaded), reply
    return worker


def call(worker, name, *args, **options):
    return worker.ask(wire.Call(name=name, args=list(args)), **options)


@pytest.fixture(scope="module", params=["forked", "fresh"])
def zygote(request):
    """Workers by fork, and by the path that is taken where fork is not to be had."""
    fork = request.param == "forked"
    if fork and sys.platform != "linux":
        pytest.skip("fork is safe on Linux only")
    with isolation.start(LIMITS, fork=fork) as made:
        yield made


@pytest.fixture(scope="module")
def forking():
    with isolation.start(LIMITS) as made:
        yield made


@pytest.fixture
def worker(forking):
    with forking.worker() as made:
        yield loaded(made)


def test_a_worker_answers_says_and_ends(zygote):
    """One life, because a fresh worker costs an import of torch."""
    with zygote.worker() as worker:
        loaded(worker)
        assert call(worker, "twice", torch.ones(2)).value.tolist() == [2, 2]
        assert call(worker, "says", "grüße 你好").value == "grüße 你好"
        assert worker.take_output() == ("grüße 你好\n", False)
        assert worker.take_output() == ("", False)
        with pytest.raises(WorkerEnded) as caught:
            call(worker, "exits", 3)
        assert caught.value.verdict is Verdict.EXITED
        assert {"call": "exits", "code": 3}.items() <= caught.value.detail.items()
        with pytest.raises(WorkerEnded) as again:
            call(worker, "twice", torch.ones(2))
        assert again.value is caught.value


@on_linux
def test_a_fresh_process_is_locked_down_too():
    with isolation.start(LIMITS, fork=False) as made:
        assert made.describe().level == isolation.CONTAINED


@on_linux
def test_this_machine_contains_a_submission(forking):
    found = forking.describe()
    assert (found.level, [layer.name for layer in found.layers if not layer.enforced]) == (isolation.CONTAINED, [])


def test_memory_and_calls_of_two_workers_are_their_own(forking):
    with forking.worker() as first, forking.worker() as second:
        loaded(first, "state = []\ndef add(x):\n    state.append(x)\n    return state\n")
        loaded(second, "state = []\ndef add(x):\n    state.append(x)\n    return state\n")
        call(first, "add", 1)
        assert [call(first, "add", 2).value, call(second, "add", 3).value] == [[1, 2], [3]]


def test_a_timeout_tells_what_a_sentence_needs(worker):
    with pytest.raises(WorkerEnded) as caught:
        call(worker, "loops")
    detail = caught.value.detail
    assert (caught.value.verdict, detail["call"], detail["limit"], detail["clock"]) == (
        *(Verdict.TIMEOUT, "loops", 0.5),
        "cpu",
    )
    assert 0.5 <= detail["cpu_seconds"] < 1.5
    assert detail["seconds"] >= detail["cpu_seconds"] * 0.9


def test_the_wall_limit_of_one_call_can_be_given(worker):
    with pytest.raises(WorkerEnded) as caught:
        worker.ask(wire.Call(name="loops"), wall_seconds=0.05)
    assert (caught.value.detail["clock"], caught.value.detail["limit"]) == ("wall", 0.05)


def test_the_clock_starts_when_the_worker_is_ready(forking):
    with isolation.start(Limits(wall_seconds_per_call=0.5)) as made, made.worker() as worker:
        assert isinstance(worker.ask(wire.Forget()), wire.Answer)


def test_output_is_cut_and_said_to_be(worker):
    call(worker, "says", "a" * 3000)
    assert worker.take_output() == ("a" * 1000, True)
    call(worker, "says", "b")
    assert worker.take_output() == ("b\n", False)


def test_a_large_argument_gets_through(worker):
    assert call(worker, "size_of", torch.zeros(1 << 22)).value == 1 << 22


def test_a_large_answer_gets_through(worker):
    assert call(worker, "twice", torch.ones(1 << 22)).value.sum() == 1 << 23


def test_a_request_that_is_too_large_is_our_fault(worker):
    with pytest.raises(wire.FrameTooLarge):
        call(worker, "size_of", torch.zeros(wire.PAYLOAD_MAX // 4 + 1))
    assert call(worker, "twice", 1).value == 2


def test_a_closed_worker_is_gone(forking):
    worker = loaded(forking.worker())
    pid = worker._process.pid
    worker.close()
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(WorkerEnded):
        worker.ask(wire.Forget())


@on_linux
def test_a_worker_without_a_pidfd_ends_as_well(forking):
    """As on kernels that have none, and in some containers."""
    with forking.worker() as worker:
        loaded(worker)
        os.close(worker._process.pidfd)
        worker._process.pidfd = None
        with pytest.raises(WorkerEnded) as caught:
            call(worker, "exits", 5)
        assert (caught.value.verdict, caught.value.detail["code"]) == (Verdict.EXITED, 5)
    with forking.worker() as worker:
        os.close(worker._process.pidfd)
        worker._process.pidfd = None
        pid = worker._process.pid
        worker.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_closed_zygote_starts_no_worker():
    made = isolation.start(LIMITS)
    made.close()
    with pytest.raises(isolation.IsolationError):
        made.worker()


def test_closing_the_zygote_ends_its_workers():
    made = isolation.start(LIMITS)
    worker = loaded(made.worker())
    made.close()
    with pytest.raises(WorkerEnded) as caught:
        call(worker, "loops")
    assert caught.value.verdict is Verdict.GRADER_ERROR
    worker.close()


def test_a_zygote_that_cannot_start_says_why(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no torch here')\n")
    monkeypatch.setattr("grader.isolation.processes.zygote.__file__", str(broken))
    with isolation.start(LIMITS, fork=True) as made, pytest.raises(isolation.IsolationError, match="no torch here"):
        made.worker()


def test_starting_does_not_import_torch():
    code = "import sys\nfrom grader import isolation\nisolation.start().close()\nprint('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(GRADER.parent)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == "False"


def test_a_worker_is_ready_in_milliseconds(forking):
    forking.worker().close()
    took = []
    for _ in range(5):
        began = time.monotonic()
        forking.worker().close()
        took.append(time.monotonic() - began)
    assert min(took) < 0.5


# --------------------------------------------------------------------------------- torch under lock-down

WORKLOAD = """
import getpass

import torch
from torch import nn

getpass.getuser = lambda: "somebody new"  # no compiler has left a folder for this user on this machine

def optimizers():
    model = nn.Linear(3, 2)
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        optimizer = kind(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    import sys
    return type(sys.modules["torch._dynamo"]).__name__

def schedulers():
    optimizer = torch.optim.AdamW(nn.Linear(3, 2).parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    optimizer.step()
    schedule.step()
    return schedule.get_last_lr()

def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    model(torch.ones(3, 5, 8), mask=mask, is_causal=True).sum().backward()
    return list(model.eval()(torch.ones(3, 5, 8), mask=mask).shape)

def attention():
    q = torch.randn(2, 3, 5, 4, requires_grad=True)
    nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    nn.MultiheadAttention(8, 2, batch_first=True)(*[torch.ones(2, 3, 8)] * 3)
    return torch.einsum("bhtd,bhsd->bhts", q, q).shape[-1]

@torch.jit.script
def scripted(x: torch.Tensor):
    return x * 2

def compiled():
    return torch.compile(lambda x: x + 1)(torch.ones(2)).tolist()

def gradients():
    twice = torch.autograd.gradcheck(lambda x: x * x, torch.ones(2, dtype=torch.float64, requires_grad=True))
    jacobian = torch.func.jacrev(lambda x: x * x)(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
    return [twice, list(jacobian.shape)]

def masks():
    from torch.nn.attention.bias import causal_lower_right
    from torch.nn.attention.flex_attention import create_block_mask
    q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4)
    bias = causal_lower_right(2, 3)
    create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 8, 8, device="cpu")
    return list(nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=bias).shape)

def loader():
    data = torch.utils.data.TensorDataset(torch.arange(6))
    return sum(len(batch[0]) for batch in torch.utils.data.DataLoader(data, batch_size=2, shuffle=True))

def saved():
    import io
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(2)}, buffer)
    buffer.seek(0)
    return torch.load(buffer)["x"].tolist()

def algebra():
    return [torch.linalg.svd(torch.eye(3))[1].sum().item(), torch.fft.fft(torch.ones(4)).abs().sum().item()]

def standard_library():
    import asyncio, dataclasses, decimal, fractions, functools, itertools, json, statistics, threading, typing, unittest
    asyncio.run(asyncio.sleep(0))
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    return json.dumps({"x": 1})
"""


@pytest.fixture(scope="module")
def torch_worker(forking):
    with isolation.start(Limits(cpu_seconds_per_call=60, wall_seconds_per_call=200)) as made, made.worker() as worker:
        yield loaded(worker, WORKLOAD)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("optimizers", "_StandIn"), ("encoder", [3, 5, 8]), ("attention", 5), ("loader", 6), ("saved", [1, 1])),
        *(("algebra", [3, 4]), ("standard_library", '{"x": 1}'), ("compiled", [2, 2]), ("gradients", [True, [2, 2]])),
        ("masks", [1, 1, 2, 4]),
    ],
)
def test_torch_works_under_lock_down(torch_worker, name, value):
    answer = call(torch_worker, name)
    assert isinstance(answer, wire.Answer), answer
    assert answer.value == value


def test_torchscript_and_schedulers_work_under_lock_down(torch_worker):
    assert call(torch_worker, "scripted", torch.ones(1)).value.tolist() == [2]
    assert call(torch_worker, "schedulers").value[0] < 0.1


@pytest.mark.parametrize("observe", ["ops", "allocations", "inputs", "flow"])
def test_observing_works_under_lock_down(worker, observe):
    answer = worker.ask(wire.Call(name="twice", args=[torch.ones(2)], observe=[observe]))
    assert getattr(answer, observe)
    assert worker.take_output() == ("", False)


# ---------------------------------------------------------------------------------------------- the ladder


@on_linux
def test_what_is_hidden_cannot_be_read_wherever_it_lies(tmp_path):
    installed = Path(torch.__file__).parents[1]
    secret, open_ = installed / "click" / "__init__.py", installed / "hypothesis" / "__init__.py"
    with isolation.start(LIMITS, hidden=[secret.parent, tmp_path]) as made, made.worker() as worker:
        loaded(worker)
        assert made.describe().level == isolation.CONTAINED
        assert call(worker, "reads", str(secret)).type == "PermissionError"
        assert call(worker, "reads", str(open_)).value > 0


def test_the_course_is_never_on_the_read_list():
    readable = list(lockdown._readable([]))
    for name in ("results.py", "course", "judge.py", "reporters"):
        assert not any(_covers(path, GRADER / name) for path in readable)
    for name in ("solutions", "exercises", "tests"):
        assert not any(_covers(path, GRADER.parent / name) for path in readable)


def _covers(path, below):
    return below.resolve() == path or path in below.resolve().parents


def test_the_read_list_goes_around_what_is_hidden(tmp_path):
    for name in ("a/x", "a/y", "site/torch", "site/course/solutions", "site/course/lessons"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "site" / "link").symlink_to(tmp_path / "site" / "course" / "solutions")
    secret = [(tmp_path / "site/course/solutions").resolve()]
    assert list(lockdown._around(tmp_path / "a", secret)) == [(tmp_path / "a").resolve()]
    found = [str(path.relative_to(tmp_path.resolve())) for path in lockdown._around(tmp_path / "site", secret)]
    assert found == ["site/course/lessons", "site/torch"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_missing_layer_is_said_in_plain_words(lang):
    missing = [lockdown.Layer(name, False, "ENOSYS") for name in lockdown.LAYERS]
    found = ladder.described(missing, lang)
    assert found.level == isolation.LIMITS_ONLY
    assert all("ENOSYS" in layer.detail for layer in found.layers)
    assert found.not_prevented[:5] == [text(f"isolation.open.{name}", lang) for name in lockdown.LAYERS]


def test_debugging_has_no_isolation():
    assert isolation.none("en").level == isolation.NONE
    assert "nothing is prevented" in isolation.none("en").not_prevented[0]


@pytest.mark.parametrize("machine", lockdown.NUMBERS)
def test_the_filter_allows_what_it_names_and_nothing_else(machine):
    """The program, interpreted: every call of the table, and calls that must not get through."""
    arch, allowed, ruled = lockdown.NUMBERS[machine]
    program, offsets = lockdown._program(arch, allowed, ruled)
    run = _Machine(program, offsets, pid=77, arch=arch)
    assert all(run(number) == "allow" for number in allowed.values())
    assert {run(number) for number in range(460) if number not in {*allowed.values(), *ruled.values()}} == {1}
    assert (run(5000), run(0, arch=123)) == (38, "kill")
    assert (run(ruled["kill"], 77, 9), run(ruled["kill"], 78, 9)) == ("allow", 1)
    assert (run(ruled["openat"], 0, 0, os.O_RDONLY), run(ruled["openat"], 0, 0, os.O_WRONLY)) == ("allow", 1)
    assert {run(ruled["openat"], 0, 0, flag) for flag in (os.O_RDWR, os.O_CREAT, os.O_TRUNC, 0o20000000)} == {1}
    thread, process = 0x3D0F00, 0x1200011
    assert (run(ruled["clone"], thread), run(ruled["clone"], process), run(ruled["clone3"])) == ("allow", 1, 38)
    assert {run(ruled["clone"], thread | new) for new in (0x20000, 0x10000000, 0x40000000, 0x80)} == {1}
    assert (run(ruled["sendto"], 3, 0, 0, 0, 0), run(ruled["sendto"], 3, 0, 0, 0, 1 << 40)) == ("allow", 1)
    assert [run(ruled["prctl"], option) for option in (15, 1, 4, 38)] == ["allow", 1, 1, 1]


class _Machine:
    """Interprets the classic BPF of the filter."""

    def __init__(self, program, offsets, pid, arch):
        import struct

        changed = bytearray(program)
        for offset in offsets:
            struct.pack_into("=I", changed, offset, pid)
        self.code = list(struct.iter_unpack("=HBBI", changed))
        self.arch = arch

    def __call__(self, number, *arguments, arch=None):
        import struct

        padded = [*arguments, *[0] * (6 - len(arguments))]
        data = struct.pack("=IIQ6Q", number, self.arch if arch is None else arch, 0, *padded)
        at, value = 0, 0
        while True:
            code, true, false, operand = self.code[at]
            at += 1
            if code == lockdown._LOAD:
                value = struct.unpack_from("=I", data, operand)[0]
            elif code == lockdown._RET:
                names = {lockdown._ALLOW: "allow", lockdown._KILL: "kill"}
                return names.get(operand, operand & 0xFFFF)
            else:
                holds = {
                    lockdown._JEQ: value == operand,
                    lockdown._JGE: value >= operand,
                    lockdown._JSET: value & operand != 0,
                }[code]
                at += true if holds else false


# --------------------------------------------------------------------------- endings in every order


class Endings(RuleBasedStateMachine):
    """Workers end in any order and way; each ending has its verdict, and the next worker is never the worse for it."""

    zygote = None

    def __init__(self):
        super().__init__()
        self.worker = None
        self.verdict = None

    @precondition(lambda self: self.worker is None)
    @rule()
    def start(self):
        self.worker, self.verdict = loaded(self.zygote.worker()), None

    @precondition(lambda self: self.worker is not None and self.verdict is None)
    @rule(number=st.integers(-5, 5))
    def answers(self, number):
        assert call(self.worker, "twice", number).value == 2 * number

    @precondition(lambda self: self.worker is not None and self.verdict is None)
    @rule(
        ending=st.sampled_from(
            [
                ("exits", [4], Verdict.EXITED),
                ("loops", [], Verdict.TIMEOUT),
                ("floods", [], Verdict.OUTPUT_FLOOD),
                ("forges", [], Verdict.TAMPERED),
            ]
        )
    )
    def ends(self, ending):
        name, arguments, self.verdict = ending
        with pytest.raises(WorkerEnded) as caught:
            call(self.worker, name, *arguments)
        assert caught.value.verdict is self.verdict

    @precondition(lambda self: self.verdict is not None)
    @rule()
    def stays_ended(self):
        with pytest.raises(WorkerEnded) as caught:
            call(self.worker, "twice", 1)
        assert caught.value.verdict is self.verdict

    @precondition(lambda self: self.worker is not None)
    @rule()
    def close(self):
        self.worker.close()
        self.worker, self.verdict = None, None

    @invariant()
    def the_zygote_lives(self):
        assert self.zygote is None or self.zygote.alive()

    def teardown(self):
        if self.worker is not None:
            self.worker.close()


@on_linux
def test_workers_end_in_any_order():
    limits = Limits(cpu_seconds_per_call=0.1, wall_seconds_per_call=20, output_bytes_max=1 << 18)
    with isolation.start(limits) as made:

        class Bound(Endings):
            zygote = made

        bounds = settings(derandomize=True, database=None, deadline=None, max_examples=15, stateful_step_count=8)
        run_state_machine_as_test(Bound, settings=bounds)
