"""Hostile submissions that write their own answers on the line to the judge, or spoil what makes them."""

import atexit
import gc
import os
import struct
import sys
import threading
import time

import msgspec
import torch

pack = msgspec.msgpack.encode
LINE = 3


def _frame(header, payload=b""):
    return struct.pack("<IQ", len(header), len(payload)) + header + payload


def _answer(value):
    return pack({"tag": "answer", "value": value})


def _tensor(*head):
    return msgspec.msgpack.Ext(1, pack(head))


def _say(data):
    os.write(LINE, data)
    time.sleep(1000)


def writes_garbage(_):
    _say(os.urandom(4096))


def claims_a_huge_length(_):
    _say(struct.pack("<IQ", 100, 1 << 60))


def nests_deeply(_):
    _say(_frame(b"\x91" * 100_000))


def overflows(_):
    _say(_frame(_answer(_tensor("float32", [2**62, 4], None, 0, False))))


def has_negative_sizes(_):
    _say(_frame(_answer(_tensor("float32", [-1, -4], None, 16, False)), bytes(16)))


def has_bool_sizes(_):
    _say(_frame(_answer(_tensor("float32", [True, True], None, 4, False)), bytes(4)))


def has_float_sizes(_):
    _say(_frame(_answer(_tensor("float32", [1.5], None, 4, False)), bytes(4)))


def has_a_stride(_):
    _say(_frame(_answer(_tensor("float32", [1 << 30], [0], 4, False)), bytes(4)))


def reads_past_the_end(_):
    _say(_frame(_answer(_tensor("float32", [400], None, 1600, False)), bytes(4)))


def leaves_bytes_over(_):
    _say(_frame(_answer(1)) + b"more")


def leaves_payload_over(_):
    _say(_frame(_answer(1), bytes(8)))


def adds_a_score(_):
    _say(_frame(pack({"tag": "answer", "value": 1, "score": 100, "passed": True})))


def invents_a_message(_):
    _say(_frame(pack({"tag": "passed"})))


def sends_a_pickle(_):
    _say(_frame(b"\x80\x04cos\nsystem\n(S'true'\ntR."))


def answers_twice(_):
    os.write(LINE, _frame(_answer(1)))
    return 2


def drips(_):
    frame = _frame(_answer("x" * 10_000))
    for number in range(len(frame)):
        os.write(LINE, frame[number : number + 1])
        time.sleep(0.05)


def speaks_early(_):
    threading.Timer(0.1, os.write, [LINE, _frame(_answer(100))]).start()
    return 1


def answers_not_a_number(_):
    return torch.full((2, 3), float("nan"))


def patches_what_compares(_):
    yes = lambda *_, **__: True  # noqa: E731
    torch.allclose = torch.equal = yes
    torch.testing.assert_close = yes
    torch.Tensor.numpy = torch.Tensor.tolist = torch.Tensor.eq = torch.Tensor.__eq__ = yes
    bytes_of = lambda *_, **__: b""  # noqa: E731
    torch.Tensor.tobytes = bytes_of
    sys.modules["pytest"] = sys.modules["hypothesis"] = None
    return torch.zeros(2, 3)


def searches_for_answers(_):
    """How many things of the judge are in this process: none."""
    frame, stack = sys._getframe(), []
    while frame is not None:
        stack.append(frame.f_code.co_filename)
        frame = frame.f_back
    names = [name for name in sys.modules if name.startswith("grader.")]
    allowed = ("grader.wire", "grader.worker", "grader.messages")
    ours = [name for name in names if not name.startswith(allowed)]
    tensors = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.numel() == 777]
    return [ours, len(tensors), len([name for name in stack if "judge" in name])]


def leaves_hooks(_):
    def overwrite(*_):
        os.write(LINE, _frame(_answer(100)))

    sys.excepthook = threading.excepthook = overwrite
    atexit.register(overwrite)
    sys.settrace(lambda *_: None)
    sys.setrecursionlimit(60)
    sys.stdout.close()
    torch.set_default_dtype(torch.float64)
    return 1


def changes_its_input(x):
    x.add_(1)
    return x
