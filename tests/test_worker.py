"""The interpreter: loads a submission, calls it, and answers with data, whatever the submission does."""

import math
import random
import sys

import pytest
import torch
from torch import nn

from grader import wire
from grader.worker.serve import Interpreter

pytestmark = pytest.mark.filterwarnings("ignore")  # of TorchScript and quantized tensors

SOURCE = """
import dataclasses, math, random
import torch
from torch import nn
from helper import HALF

__all__ = ["attention"]

def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    weights = scores.softmax(-1)
    return weights @ v, weights

def half(x):
    return x * HALF

def same(*args, **kwargs):
    return [*args, kwargs] if kwargs else args[0] if len(args) == 1 else list(args)

def spoils(x):
    x.add_(1)
    return x.sum()

def draws(n):
    return [torch.rand(n), random.random()]

def makes(kind):
    return {
        "sparse": torch.eye(2).to_sparse(), "meta": torch.ones(2, device="meta"), "huge": 10**30, "object": object(),
        "set": {1}, "bytes": b"x", "subclass": torch.ones(2).as_subclass(Sub), "cycle": cycle(), "deep": deep(),
        "key": {(1, 2): 3}, "complex": 1j, "dtype": torch.float64, "size": torch.ones(2, 3).shape, "text": "a\\ud800b",
        "function": half, "generator": torch.Generator(),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8),
    }[kind]

class Sub(torch.Tensor):
    pass

class Text(str):
    def __str__(self):
        raise RuntimeError

class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")

def cycle():
    one = []
    one.append(one)
    return one

def deep():
    one = []
    for _ in range(100):
        one = [one]
    return one

def odd():
    raise Odd

def outer():
    return inner()

def inner():
    raise ValueError("size 7 is too small")

def interrupts():
    raise KeyboardInterrupt

@dataclasses.dataclass
class Config:
    width: int = 3

BUFFER = torch.zeros(2)

def one_buffer(x):
    return BUFFER.copy_(x)

def whole(x):
    return x[:]

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        Square.last = x
        return x * x

    @staticmethod
    def backward(ctx, flow):
        return 2 * Square.last * flow

def square(x):
    return x * x

def square_of_the_last(x):
    return Square.apply(x)

def grads_off():
    torch.set_grad_enabled(False)

class Tied(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, width, bias=False)
        self.b = self.a
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("seen", torch.zeros(1))
        self.width = width

    def forward(self, x):
        return self.b(self.a(x)) * self.scale

    def method(self, x):
        return x + self.width

@torch.jit.script
def scripted(x: torch.Tensor, w: torch.Tensor):
    return torch.embedding(w, x)

def with_encoder(x):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)(x)

def hidden_in_a_thread(x, w):
    import threading
    kept = []
    thread = threading.Thread(target=lambda: kept.append(nn.functional.embedding(x, w)))
    thread.start()
    thread.join()
    return kept[0]
"""
FILES = {"ex.py": SOURCE, "helper.py": "HALF = 0.5\n"}


@pytest.fixture(params=[None, torch.float64], ids=["as it comes", "float64"])
def interpreter(request):
    made = Interpreter(request.param)
    loaded = made.handle(wire.Load(FILES, "ex.py"))
    assert isinstance(loaded, wire.Loaded), loaded
    yield made
    made.close()


@pytest.fixture
def plain():
    made = Interpreter()
    made.handle(wire.Load(FILES, "ex.py"))
    yield made
    made.close()


def ask(interpreter, name, *args, **options):
    return interpreter.handle(wire.Call(name=name, args=list(args), **options))


def test_public_names_are_told(plain):
    loaded = plain.handle(wire.Load(FILES, "ex.py"))
    assert isinstance(loaded, wire.Loaded), loaded
    names = loaded.names
    assert {"attention", "Tied", "Config"} <= set(names)
    assert not {"torch", "nn", "math", "__all__"} & set(names)


def test_the_trusted_run_is_float64_and_leaves_no_trace(interpreter):
    answer = ask(interpreter, "attention", *[torch.ones(2, 3)] * 3)
    wanted = interpreter.dtype or torch.float32
    assert [tensor.dtype for tensor in answer.value] == [wanted] * 2
    assert torch.get_default_dtype() is torch.float32


def test_gradients_reach_inputs_and_parameters(interpreter):
    model = ask(interpreter, "Tied", 3).value
    x, cotangent = torch.randn(2, 3), torch.randn(2, 3)
    answer = interpreter.handle(wire.Call(handle=model.id, args=[x], cotangent=cotangent))
    assert answer.gradients.inputs[0].shape == (2, 3)
    assert set(answer.gradients.parameters) == {"a.weight", "b.weight", "scale"}
    assert torch.equal(answer.gradients.parameters["a.weight"], answer.gradients.parameters["b.weight"])


def test_gradients_are_those_of_autograd(plain):
    q, k, v = (torch.randn(2, 4, 3) for _ in range(3))
    cotangent = torch.randn(2, 4, 3)
    got = ask(plain, "attention", q, k, v, cotangent=[cotangent, None]).gradients.inputs
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    scores = leaves[0] @ leaves[1].transpose(-1, -2) / 3**0.5
    (scores.softmax(-1) @ leaves[2]).backward(cotangent)
    for one, other in zip(got, leaves, strict=True):
        torch.testing.assert_close(one, other.grad)


def test_a_gradient_that_does_not_arrive_is_none(plain):
    answer = ask(plain, "same", torch.ones(2), torch.ones(2), cotangent=[torch.ones(2), None])
    assert answer.gradients.inputs[1] is None


def test_sparse_gradients_are_told_as_numbers(plain):
    source = "import torch\n\ndef rows(table, ids):\n    return torch.gather(table, 0, ids, sparse_grad=True)\n"
    plain.handle(wire.Load({"ex.py": source}, "ex.py"))
    ids = torch.tensor([[1, 1]])
    (gradient,) = ask(plain, "rows", torch.ones(3, 2), ids, cotangent=torch.ones(1, 2)).gradients.inputs
    assert gradient.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_a_shape_that_differs_from_its_cotangent_has_no_gradients(plain):
    answer = ask(plain, "half", torch.ones(2), cotangent=torch.ones(3))
    assert (answer.value.shape, answer.gradients) == ((2,), None)


def test_arguments_are_fresh_in_each_call(plain):
    given = torch.zeros(2)
    answers = [ask(plain, "spoils", given, observe=["inputs"]) for _ in range(2)]
    assert [answer.value.item() for answer in answers] == [2, 2]
    assert answers[0].inputs[0].tolist() == [1, 1]
    assert given.tolist() == [0, 0]


@pytest.mark.parametrize(("name", "kept"), [("one_buffer", False), ("whole", True), ("same", True), ("half", True)])
def test_an_answer_that_the_next_call_changes_is_told(plain, name, kept):
    answer = ask(plain, name, torch.ones(2), earlier=[torch.tensor([2.0, math.nan])])
    assert (answer.value.tolist(), answer.earlier_kept) == ([0.5, 0.5] if name == "half" else [1, 1], kept)


def test_a_second_call_may_come_before_the_backward_pass(interpreter):
    x, other = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 5.0])
    for name, expected in (("square", [2, 4]), ("square_of_the_last", [10, 10])):
        answer = ask(interpreter, name, x, cotangent=torch.ones(2), later=[other])
        assert (answer.value.tolist(), answer.gradients.inputs[0].tolist()) == ([1, 4], expected)


def test_gradients_may_go_to_the_parameters_alone(plain):
    model = ask(plain, "Tied", 2).value
    x, flow = torch.ones(1, 2), torch.ones(1, 2)
    both, alone = (
        plain.handle(wire.Call(handle=model.id, args=[x], cotangent=flow, to_inputs=to)).gradients
        for to in (True, False)
    )
    assert both.inputs[0] is not None
    assert alone.inputs == [None]
    assert torch.equal(both.parameters["scale"], alone.parameters["scale"])


def test_gradients_stay_off_until_the_case_ends(plain):
    def wants():
        return ask(plain, "half", torch.ones(2), cotangent=torch.ones(2)).gradients.inputs[0] is not None

    assert not ask(plain, "grads_off", grad=False).grad_mode
    assert wants()
    ask(plain, "grads_off")
    assert not wants()
    assert torch.is_grad_enabled()
    plain.handle(wire.Forget())
    assert wants()


def test_an_argument_of_our_own_is_handed_on_and_one_of_others_is_not():
    for copies in (True, False):
        made = Interpreter(copies=copies)
        made.handle(wire.Load(FILES, "ex.py"))
        given = torch.zeros(2)
        answer = ask(made, "whole", given).value
        assert (answer.data_ptr() == given.data_ptr()) is not copies
        made.close()


def test_arguments_keep_their_strides(plain):
    base = torch.arange(6.0).reshape(2, 3)
    plain.module.strides = lambda *tensors: [list(tensor.stride()) for tensor in tensors]
    assert ask(plain, "strides", base.T, base[:, :1].expand(2, 3)).value == [[1, 3], [3, 0]]


def test_a_seed_decides_what_is_drawn(plain):
    first, again, other = (ask(plain, "draws", 3, seed=seed).value for seed in (1, 1, 2))
    assert first[0].tolist() == again[0].tolist() != other[0].tolist()
    assert first[1] == again[1] != other[1]


def test_the_trusted_run_leaves_the_judges_dice_alone():
    made = Interpreter(torch.float64)
    made.handle(wire.Load(FILES, "ex.py"))
    torch.manual_seed(5)
    random.seed(5)
    wanted = torch.rand(1).item(), random.random()
    torch.manual_seed(5)
    random.seed(5)
    ask(made, "draws", 3)
    assert (torch.rand(1).item(), random.random()) == wanted
    made.close()


@pytest.mark.parametrize(
    ("kind", "type"),
    [
        *(
            ("sparse", "tensor of layout sparse_coo"),
            ("meta", "tensor on device meta"),
            ("huge", "int of more than 64 bits"),
        ),
        *(("object", "object"), ("set", "set"), ("bytes", "bytes"), ("subclass", "Sub"), ("complex", "complex")),
        *(("cycle", "list nested too deeply"), ("deep", "list nested too deeply")),
        ("key", "dict of keys that are neither str nor int"),
        ("quantized", "tensor of dtype qint8, rank 1"),
    ],
)
def test_what_the_wire_does_not_carry_is_opaque(plain, kind, type):
    answer = ask(plain, "makes", kind)
    assert answer.value == wire.Opaque(type)
    assert wire.decode_reply(wire.encode(answer)).value == wire.Opaque(type)


@pytest.mark.parametrize(("kind", "value"), [("dtype", torch.float64), ("size", [2, 3]), ("text", "a?b")])
def test_what_the_wire_carries_comes_as_data(plain, kind, value):
    assert ask(plain, "makes", kind).value == value


@pytest.mark.parametrize(("kind", "type"), [("function", "function"), ("generator", "Generator")])
def test_an_object_is_kept_under_a_handle(plain, kind, type):
    handle = ask(plain, "makes", kind).value
    assert (handle.type, handle) == (type, ask(plain, "same", handle).value)


def test_a_kept_function_can_be_called(plain):
    handle = ask(plain, "makes", "function").value
    assert plain.handle(wire.Call(handle=handle.id, args=[torch.ones(1)])).value.item() == 0.5


def test_methods_and_attributes_of_a_module(plain):
    model = ask(plain, "Tied", 3).value
    assert plain.handle(wire.Call(handle=model.id, method="method", args=[1])).value == 4
    assert plain.handle(wire.Attribute(model.id, "width")).value == 3
    assert plain.handle(wire.Attribute(model.id, "nothing")).type == "AttributeError"
    plain.handle(wire.Mode(model.id, False))
    assert plain.handle(wire.Attribute(model.id, "training")).value is False
    assert [row["name"] for row in plain.handle(wire.Buffers(model.id)).value] == ["seen"]


def test_shared_parameters_are_told(plain):
    model = ask(plain, "Tied", 3).value
    rows = plain.handle(wire.Parameters(model.id)).value
    assert {row["name"]: row["same_as"] for row in rows} == {"scale": None, "a.weight": None, "b.weight": "a.weight"}


def test_writing_is_all_or_nothing(plain):
    model = ask(plain, "Tied", 3).value
    bad = {"a.weight": torch.zeros(3, 3), "scale": torch.zeros(2), "zzz": torch.zeros(1)}
    assert plain.handle(wire.Write(model.id, bad)).value == {"missing": ["zzz"], "shapes": {"scale": [3]}}
    assert plain.handle(wire.Parameters(model.id)).value[1]["value"].abs().sum() > 0
    assert plain.handle(wire.Write(model.id, {"b.weight": torch.zeros(3, 3)})).value is None
    assert plain.handle(wire.Call(handle=model.id, args=[torch.ones(2, 3)])).value.abs().sum() == 0


def test_streams_become_generators(plain):
    plain.module.draw = lambda generator: torch.rand(2, generator=generator)
    wanted = torch.rand(2, generator=torch.Generator().manual_seed(9))
    assert torch.equal(ask(plain, "draw", wire.Stream(9)).value, wanted)


def test_dataclasses_and_helpers_work(plain):
    assert ask(plain, "Config").value.type == "Config"
    assert ask(plain, "half", 4.0).value == 2.0


def test_what_is_raised_is_told_with_the_submissions_own_lines(plain):
    raised = ask(plain, "outer")
    assert (raised.type, raised.message) == ("ValueError", "size 7 is too small")
    assert raised.bases == ["ValueError", "Exception", "BaseException", "object"]
    lines = SOURCE.splitlines()
    assert [(frame.function, lines[frame.line - 1].strip()) for frame in raised.frames] == [
        ("outer", "return inner()"),
        ("inner", 'raise ValueError("size 7 is too small")'),
    ]


def test_an_exception_without_text_is_told(plain):
    assert ask(plain, "odd").message == "(its text cannot be read: RuntimeError)"


def test_an_interrupt_is_told_in_a_worker_and_obeyed_in_the_trusted_run(plain):
    assert ask(plain, "interrupts").type == "KeyboardInterrupt"
    trusted = Interpreter(torch.float64)
    trusted.handle(wire.Load(FILES, "ex.py"))
    with pytest.raises(KeyboardInterrupt):
        ask(trusted, "interrupts")
    trusted.close()


@pytest.mark.parametrize(
    ("source", "type", "line"),
    [
        ("x = (\n", "SyntaxError", 1),
        ("\nimport nonexistent_thing\n", "ModuleNotFoundError", 2),
        ("\n\nexit(0)\n", "SystemExit", 3),
        ("1/0\n", "ZeroDivisionError", 1),
        ("x = '\0'\n", "SyntaxError", 1),
        ("(" * 5000, "SyntaxError", 1),
    ],
)
def test_a_broken_import_is_raised(source, type, line):
    made = Interpreter()
    raised = made.handle(wire.Load({"broken.py": source}, "broken.py"))
    made.close()
    assert type in raised.bases
    assert [frame.line for frame in raised.frames[:1]] in ([line], [])


def test_requests_for_what_is_not_there_are_raised(plain):
    assert ask(plain, "nobody").type == "AttributeError"
    assert plain.handle(wire.Call(handle=99)).type == "KeyError"
    assert plain.handle(wire.Make("nothing", {})).type == "KeyError"


def test_a_changed_default_does_not_last(plain):
    plain.module.change = lambda: torch.set_default_dtype(torch.float64)
    ask(plain, "change")
    assert torch.get_default_dtype() is torch.float32


def test_helpers_are_found_in_folders():
    made = Interpreter()
    files = {"sub/ex.py": "from near import a\nfrom pkg.mod import b\nc = a + b\n", "sub/near.py": "a = 1\n"}
    files |= {"sub/pkg/__init__.py": "", "sub/pkg/mod.py": "from .other import b\n", "sub/pkg/other.py": "b = 2\n"}
    assert made.handle(wire.Load(files, "sub/ex.py")).names == ["a", "b", "c"]
    made.close()
    assert not {"near", "pkg", "pkg.mod"} & set(sys.modules)


def test_two_submissions_of_one_name_do_not_mix():
    first, second = Interpreter(), Interpreter()
    first.handle(wire.Load({"ex.py": "from helper import X\ndef f(): return X\n", "helper.py": "X = 1\n"}, "ex.py"))
    second.handle(wire.Load({"ex.py": "def f(): return 2\n"}, "ex.py"))
    assert [ask(first, "f").value, ask(second, "f").value] == [1, 2]
    first.close()
    second.close()


# ------------------------------------------------------------------------------------------ observing


def test_operations_are_recorded(plain):
    ops = ask(plain, "attention", *[torch.ones(2, 3)] * 3, observe=["ops"]).ops
    assert {"aten::softmax", "aten::matmul"} <= set(ops)
    assert "aten::embedding" not in ops


def test_operations_are_recorded_with_gradients_and_without(plain):
    plain.module.two_ways = lambda x: x.exp() if torch.is_grad_enabled() else x.sin()
    answer = ask(plain, "two_ways", torch.zeros(3), observe=["ops"])
    assert {"aten::exp", "aten::sin"} <= set(answer.ops)
    assert torch.equal(answer.value, torch.ones(3))
    assert answer.grad_mode is True


def test_the_second_call_for_operations_is_given_tensors_of_its_own(plain):
    seen = []
    plain.module.remembers = lambda x: x.sin() if any(x is one for one in seen) else (seen.append(x), x.exp())[1]
    assert "aten::sin" not in ask(plain, "remembers", torch.zeros(3), observe=["ops"]).ops


def test_operations_inside_torchscript_and_threads_are_recorded(plain):
    ids, table = torch.tensor([1]), torch.ones(3, 4)
    assert "aten::embedding" in ask(plain, "scripted", ids, table, observe=["ops"]).ops
    ops = ask(plain, "hidden_in_a_thread", ids, table, observe=["ops"]).ops
    assert {"aten::embedding", "torch.nn.functional.embedding"} <= set(ops)


def test_library_modules_are_recorded_by_name(plain):
    ops = ask(plain, "with_encoder", torch.ones(3, 5, 8), observe=["ops"]).ops
    assert {"torch.nn.modules.linear.Linear.forward", "torch.nn.functional.layer_norm"} <= set(ops)


def test_observing_prints_nothing(plain, capfd):
    ask(plain, "half", torch.ones(2), observe=["ops", "allocations", "inputs", "flow"])
    assert capfd.readouterr() == ("", "")


def test_observing_does_not_import_the_compiler(plain):
    before = "torch._dynamo" in sys.modules
    ask(plain, "half", torch.ones(2), observe=["ops", "allocations"])
    assert ("torch._dynamo" in sys.modules) == before


def test_allocations_count_what_is_stored(plain):
    plain.module.allocate = lambda q: [q @ q.T, q.expand(9, *q.shape), torch.ones(4, 5), (q > 0)]
    found = ask(plain, "allocate", torch.randn(4, 3), observe=["allocations"]).allocations
    assert [(one.shape, one.stored, one.distinct) for one in found] == [
        ([4, 4], 16, 3),
        ([4, 5], 20, 1),
        ([4, 3], 12, 2),
    ]


def test_allocations_see_what_is_written_later(plain):
    def allocate(q):
        mask = torch.zeros(4, 5)
        mask[1:, :2] = -1.0
        return mask

    plain.module.allocate = allocate
    found = ask(plain, "allocate", torch.randn(4, 3), observe=["allocations"]).allocations
    assert [(one.shape, one.distinct) for one in found if one.shape == [4, 5]] == [([4, 5], 1), ([4, 5], 2)]


def test_the_flow_of_shapes_is_traced(plain):
    flow = ask(plain, "attention", *[torch.ones(2, 4, 3)] * 3, observe=["flow"]).flow
    lines = SOURCE.splitlines()
    assert [(one.name, one.shape) for one in flow] == [
        *(("q", [2, 4, 3]), ("k", [2, 4, 3]), ("v", [2, 4, 3])),
        *(("scores", [2, 4, 4]), ("weights", [2, 4, 4])),
    ]
    assert lines[flow[3].line - 1].strip().startswith("scores =")


def test_a_made_object_travels_as_a_handle(plain):
    model = plain.handle(wire.Make("identity", {})).value
    assert (model.type, plain.handle(wire.Call(handle=model.id, args=[3])).value) == (nn.Identity.__name__, 3)
    plain.handle(wire.Forget())
    assert plain.handle(wire.Attribute(model.id, "training")).type == "KeyError"
