"""Frames: everything comes back as it was; bytes that are no frame are MalformedFrame and nothing else."""

import random
import struct

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader import wire

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def there_and_back(value):
    return wire.decode_reply(wire.encode(wire.Answer(value=value))).value


def request_there_and_back(*args):
    return wire.decode_request(wire.encode(wire.Call(name="f", args=list(args)))).args


plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner), max_leaves=20
)


@given(values)
@settings(derandomize=True, database=None, deadline=None, max_examples=100)
def test_plain_data_comes_back(value):
    assert there_and_back(value) == value


@pytest.mark.parametrize("dtype", wire.DTYPES.values(), ids=str)
def test_a_tensor_of_any_dtype_comes_back(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    back = there_and_back([tensor])[0]
    assert back.dtype is dtype
    assert torch.equal(back, tensor)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 1, 3)])
def test_a_tensor_of_any_shape_comes_back(shape):
    back = there_and_back(torch.ones(shape))
    assert back.shape == shape


def test_special_numbers_come_back():
    back = there_and_back([torch.tensor([float("nan"), float("inf"), -0.0]), float("-inf")])
    assert torch.isnan(back[0][0])
    assert back[0][1:].tolist() == [float("inf"), -0.0]
    assert back[1] == float("-inf")


def test_strides_of_arguments_come_back():
    base = torch.arange(24.0).reshape(2, 3, 4)
    sent = [base.transpose(0, 2), base[:, :1].expand(2, 3, 4), base[:, ::2], base[1]]
    for tensor, back in zip(sent, request_there_and_back(*sent), strict=True):
        assert torch.equal(tensor, back)
        assert tensor.stride() == back.stride()


def test_gradients_are_asked_for_as_sent():
    back = request_there_and_back(torch.ones(1, requires_grad=True), torch.ones(1))
    assert [tensor.requires_grad for tensor in back] == [True, False]


def test_lazy_views_are_resolved():
    number = torch.tensor([1 + 2j])
    back = there_and_back([number.conj(), number.conj().imag])
    assert back[0].tolist() == [1 - 2j]
    assert back[1].tolist() == [-2.0]


@pytest.mark.parametrize("value", [wire.Handle(3, "Linear"), wire.Opaque("sparse"), wire.Stream(7), torch.float16])
def test_extensions_come_back(value):
    assert there_and_back({"x": [value]}) == {"x": [value]}


REQUESTS = [
    wire.Load({"a.py": "x = 1\n"}, "a.py"),
    wire.Call(handle=1, method="reset", kwargs={"k": 1}, seed=5, observe=["ops"], grad=False),
    *(wire.Parameters(1), wire.Buffers(1), wire.Write(1, {}), wire.Mode(1, True), wire.Attribute(1, "x")),
    *(wire.Make("identity", {}), wire.Forget()),
]
REPLIES = [
    wire.Loaded(["f"]),
    wire.Raised("E", ["E", "object"], "no", [wire.Frame("a.py", 1, "f")]),
    wire.Answer(
        1, [2], wire.Gradients([None], {"w": None}), ["aten::add"], [wire.Allocation("a", "float32", [1], 1, 1)]
    ),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_every_request_comes_back(request_):
    assert wire.decode_request(wire.encode(request_)) == request_


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_every_reply_comes_back(reply):
    assert wire.decode_reply(wire.encode(reply)) == reply


def test_what_the_wire_does_not_carry_is_refused():
    with pytest.raises(TypeError, match="does not carry object"):
        wire.encode(wire.Answer(value=object()))


def test_what_is_too_large_is_refused():
    with pytest.raises(wire.FrameTooLarge):
        wire.encode(wire.Answer(value=torch.zeros(wire.PAYLOAD_MAX + 1, dtype=torch.uint8)))


def frame(header, payload=b""):
    return wire.PREFIX.pack(len(header), len(payload)) + header + payload


def answer(*head):
    return msgspec.msgpack.encode({"tag": "answer", "value": msgspec.msgpack.Ext(1, msgspec.msgpack.encode(head))})


MALFORMED = {
    "nothing": b"",
    "half a prefix": bytes(5),
    "an enormous header": wire.PREFIX.pack(2**32 - 1, 0),
    "an enormous payload": wire.PREFIX.pack(1, 2**60),
    "less than was said": frame(b"\xc0")[:-1],
    "more than was said": frame(b"\xc0") + b"x",
    "no message": frame(b"\xc0"),
    "two messages": frame(wire._pack({"tag": "answer"}) * 2),
    "an unknown message": frame(wire._pack({"tag": "passed"})),
    "an unknown field": frame(wire._pack({"tag": "answer", "score": 100})),
    "a request for a reply": wire.encode(wire.Forget()),
    "a deep nest": frame(wire._pack({"tag": "answer"})[:-1] + b"\x91" * 100_000),
    "an unknown extension": frame(wire._pack({"tag": "answer", "value": msgspec.msgpack.Ext(99, b"")})),
    "an unknown dtype": frame(answer("quint8", [1], None, 1, False), b"x"),
    "a bool for a size": frame(answer("uint8", [True], None, 1, False), b"x"),
    "a fraction for a size": frame(answer("uint8", [1.5], None, 1, False), b"x"),
    "a negative size": frame(answer("uint8", [-1, -1], None, 1, False), b"x"),
    "an overflowing size": frame(answer("uint8", [2**40, 2**40, 0], None, 0, False)),
    "too many axes": frame(answer("uint8", [1] * 17, None, 1, False), b"x"),
    "bytes that are missing": frame(answer("float32", [4], None, 16, False), b"x"),
    "bytes that nobody claims": frame(answer("uint8", [1], None, 1, False), b"xy"),
    "a stride": frame(answer("uint8", [1000], [0], 1, False), b"x"),
    "a length that disagrees": frame(answer("uint8", [4], None, 1, False), b"x"),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_bytes_that_are_no_reply_are_malformed(data):
    with pytest.raises(wire.MalformedFrame):
        wire.decode_reply(data)


def test_a_bool_tensor_holds_only_bools():
    decoded = wire.decode_reply(frame(answer("bool", [3], None, 3, False), b"\x00\x01\xff")).value
    assert decoded.tolist() == [False, True, True]
    assert decoded.view(torch.uint8).tolist() == [0, 1, 1]


def test_a_hundred_thousand_hostile_frames_are_malformed_or_valid():
    """Every byte string is a reply or MalformedFrame: mutations of good frames, and noise."""
    choose = random.Random(0)
    good = [wire.encode(reply) for reply in (*REPLIES, wire.Answer(value=[torch.ones(2, 3), wire.Handle(1, "x")]))]
    outcomes = {"valid": 0, "malformed": 0}
    for _ in range(100_000):
        try:
            wire.decode_reply(mutated(choose, choose.choice(good)))
            outcomes["valid"] += 1
        except wire.MalformedFrame:
            outcomes["malformed"] += 1
    assert sum(outcomes.values()) == 100_000
    assert outcomes["malformed"] > 10_000


def mutated(choose, data):
    changed = bytearray(data)
    kind = choose.randrange(5)
    if kind == 0:
        return choose.randbytes(choose.randrange(60))
    if kind == 1:
        del changed[choose.randrange(len(changed)) :]
    elif kind == 2:
        at = choose.randrange(wire.PREFIX.size, len(changed))
        changed[at:at] = choose.randbytes(choose.randrange(1, 9))
        _, payload = wire.PREFIX.unpack(changed[: wire.PREFIX.size])
        struct.pack_into("<IQ", changed, 0, max(0, len(changed) - wire.PREFIX.size - payload), payload)
        return changed
    else:
        for _ in range(choose.randrange(1, 5)):
            changed[choose.randrange(wire.PREFIX.size, len(changed))] = choose.randrange(256)
    return changed
