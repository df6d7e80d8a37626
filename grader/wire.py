"""Frames between the judge and a worker: a msgspec header and raw tensor bytes, never pickle.

A frame is a prefix of two lengths, a msgpack header that holds one message, and a payload in which the tensors of
that message stand one after the other. Inside a value, a tensor is an extension that says dtype, shape, stride and
length in bytes; handles, streams, dtypes and opaque answers are extensions too.

Replies come from code that nobody trusts. `decode_reply` builds tensors only from sizes that agree with the bytes
that really came, and answers everything else with `MalformedFrame`.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec
import torch

PREFIX = struct.Struct("<IQ")  # bytes of the header, bytes of the payload
REQUEST_HEADER_MAX = 64 << 20  # sources travel in the header of Load
REPLY_HEADER_MAX = 4 << 20
PAYLOAD_MAX = 64 << 20
DEPTH_MAX = 32
RANK_MAX = 16
ELEMENTS_MAX = 1 << 40  # of max(dim, 1) multiplied, so that strides cannot overflow where a size is 0
MESSAGE_MAX = 2000  # characters of an exception's text
FRAMES_MAX = 20

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
        *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    )
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class MalformedFrame(Exception):
    """Bytes that are no frame of ours. From a worker, this is tampering."""


class FrameTooLarge(Exception):
    """A message of ours that exceeds what a frame may hold."""


# ---------------------------------------------------------------------------------------------- values


class Handle(msgspec.Struct, frozen=True):
    """An object that the worker keeps: a module, an optimizer, a function that was returned."""

    id: int
    type: str


class Opaque(msgspec.Struct, frozen=True):
    """An answer of a kind that the wire does not carry, such as a sparse tensor. An answer, not a crash."""

    type: str


class Stream(msgspec.Struct, frozen=True):
    """Becomes `torch.Generator().manual_seed(seed)` in the worker."""

    seed: int


class Frame(msgspec.Struct, frozen=True):
    """A call of the submission's own code in a traceback; `line` counts from 1."""

    file: str
    line: int
    function: str


class Allocation(msgspec.Struct, frozen=True):
    """A tensor that an operation made. `stored` counts elements really stored; `distinct` is 1, 2 or 3 (more)."""

    op: str
    dtype: str
    shape: list[int]
    stored: int
    distinct: int


class Local(msgspec.Struct, frozen=True):
    """A local variable of the submission that held a tensor after `line` ran."""

    file: str
    line: int
    function: str
    name: str
    dtype: str
    shape: list[int]


class KernelCall(msgspec.Struct, frozen=True):
    """A call of the fused attention kernel: whether it got a mask, and two of its other arguments."""

    masked: bool
    is_causal: bool
    dropout_p: float


class Gradients(msgspec.Struct):
    """`inputs`: one for each floating tensor argument, arguments first, then keywords; None where nothing arrived."""

    inputs: list[Any]
    parameters: dict[str, Any]


# -------------------------------------------------------------------------------------------- requests


class Load(msgspec.Struct, tag_field="tag", tag="load", forbid_unknown_fields=True):
    """Import `main`. `files` maps relative paths to source text; the other ones are importable as helpers."""

    files: dict[str, str]
    main: str


class Spoil(msgspec.Struct, frozen=True):
    """What the fused attention kernel's result becomes: times `scale`, and `add` more in one element, which lies at
    the share `at` of the whole way through it."""

    scale: float = 1.0
    add: float = 0.0
    at: float = 0.0


class Call(msgspec.Struct, tag_field="tag", tag="call", forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Call a top-level name, a kept object, or a method of a kept object.

    With `earlier`, the tensors among its arguments hold those numbers first, in a call that is made before this one.
    With `later`, another one with those numbers is made between this one and its backward pass.
    A `cotangent` asks for gradients, of the parameters alone unless they go `to_inputs` as well.
    Without `grad` it is made under `torch.no_grad()`; else gradients are on, unless a call before switched them off.
    To `observe` "ops" it is made once more, on fresh tensors, under `torch.no_grad()`: they are those of both.
    """

    name: str | None = None
    handle: int | None = None
    method: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    seed: int = 0
    cotangent: Any = None
    observe: list[str] = []
    grad: bool = True
    spoil: Spoil | None = None
    earlier: list[Any] | None = None
    later: list[Any] | None = None
    to_inputs: bool = True
    device: str = "cpu"

    def again(self) -> Call:
        """The same call on the tensors of `later` in place of its own."""
        numbers = iter(self.later or [])

        def swapped(value: Any) -> Any:
            return next(numbers) if isinstance(value, torch.Tensor) else value

        args = [swapped(value) for value in self.args]
        kwargs = {name: swapped(value) for name, value in self.kwargs.items()}
        return Call(name=self.name, handle=self.handle, method=self.method, args=args, kwargs=kwargs)


class Parameters(msgspec.Struct, tag_field="tag", tag="parameters", forbid_unknown_fields=True):
    handle: int


class Buffers(msgspec.Struct, tag_field="tag", tag="buffers", forbid_unknown_fields=True):
    handle: int


class Write(msgspec.Struct, tag_field="tag", tag="write", forbid_unknown_fields=True):
    """Write parameters in place, by name. All of them, or none where a name is missing or a shape differs."""

    handle: int
    values: dict[str, Any]


class Mode(msgspec.Struct, tag_field="tag", tag="mode", forbid_unknown_fields=True):
    handle: int
    training: bool


class Attribute(msgspec.Struct, tag_field="tag", tag="attribute", forbid_unknown_fields=True):
    handle: int
    name: str


class Make(msgspec.Struct, tag_field="tag", tag="make", forbid_unknown_fields=True):
    """Make an object of the grader's own: a row of `worker.models.MAKERS`."""

    kind: str
    kwargs: dict[str, Any]


class Forget(msgspec.Struct, tag_field="tag", tag="forget", forbid_unknown_fields=True):
    """Drop every handle."""


# --------------------------------------------------------------------------------------------- replies


class Loaded(msgspec.Struct, tag_field="tag", tag="loaded", forbid_unknown_fields=True):
    names: list[str]


class Answer(msgspec.Struct, tag_field="tag", tag="answer", forbid_unknown_fields=True, omit_defaults=True):
    value: Any = None
    inputs: list[Any] | None = None  # the tensor arguments after the call
    gradients: Gradients | None = None
    ops: list[str] | None = None
    allocations: list[Allocation] | None = None
    flow: list[Local] | None = None
    kernel: list[KernelCall] | None = None
    grad_mode: bool = True  # whether gradients were on when the call had returned
    requires_grad: list[bool] | None = None  # of each of `inputs`
    earlier_kept: bool = True  # whether the answer of the call with `earlier` was left alone by this one


class Raised(msgspec.Struct, tag_field="tag", tag="raised", forbid_unknown_fields=True):
    """What the submission raised; `bases` names the MRO, `frames` are its own files, outermost first."""

    type: str
    bases: list[str]
    message: str
    frames: list[Frame]


Request = Load | Call | Parameters | Buffers | Write | Mode | Attribute | Make | Forget
Reply = Loaded | Answer | Raised


# -------------------------------------------------------------------------------------------- encoding


_Size = Annotated[int, msgspec.Meta(ge=0)]
_Sizes = Annotated[list[_Size], msgspec.Meta(max_length=RANK_MAX)]


class _TensorHead(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    dtype: str
    shape: _Sizes
    stride: _Sizes | None  # None: contiguous
    nbytes: _Size
    requires_grad: bool


_TENSOR, _HANDLE, _OPAQUE, _STREAM, _DTYPE = 1, 2, 3, 4, 5
_PLAIN = frozenset({type(None), bool, int, float, str})
_pack = msgspec.msgpack.encode


def encode(message: Request | Reply) -> bytes:
    """The frame of a message. Raises FrameTooLarge, TypeError for a value that the wire does not carry."""
    chunks: list[bytes] = []
    header = _pack(_packed(message, chunks, 0))
    payload = sum(map(len, chunks))
    header_max = REPLY_HEADER_MAX if isinstance(message, Reply) else REQUEST_HEADER_MAX
    if len(header) > header_max or payload > PAYLOAD_MAX:
        raise FrameTooLarge(f"{len(header)} + {payload} bytes")
    return b"".join((PREFIX.pack(len(header), payload), header, *chunks))


def _packed(value: Any, chunks: list[bytes], depth: int) -> Any:
    """The value with its tensors moved to `chunks`, so that msgspec can encode it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > DEPTH_MAX:
        raise TypeError("nested too deeply")
    if isinstance(value, torch.Tensor):
        return msgspec.msgpack.Ext(_TENSOR, _tensor_head(value, chunks))
    if kind is dict:
        return {key: _packed(item, chunks, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_packed(item, chunks, depth + 1) for item in value]
    if kind in _EXTENSIONS:
        return msgspec.msgpack.Ext(_EXTENSIONS[kind], _pack(value))
    if kind is torch.dtype:
        return msgspec.msgpack.Ext(_DTYPE, DTYPE_NAMES[value].encode())
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        packed = {name: _packed(field, chunks, depth + 1) for name, field in fields if field is not None}
        return kind(**packed)  # wherever a field may be None, that is its default
    raise TypeError(f"the wire does not carry {kind.__qualname__}")


def _tensor_head(tensor: torch.Tensor, chunks: list[bytes]) -> bytes:
    stored, stride = tensor, None
    if stored.is_conj() or stored.is_neg():
        stored = stored.detach().resolve_conj().resolve_neg()
    if not stored.is_contiguous():
        stride = list(stored.stride())
        stored = stored.detach().as_strided((_extent(stored.shape, stride),), (1,))
    size = stored.nbytes
    if size > PAYLOAD_MAX:
        raise FrameTooLarge(f"a tensor of {size} bytes")
    chunks.append(ctypes.string_at(stored.data_ptr(), size))
    name = DTYPE_NAMES[tensor.dtype]
    return _pack(_TensorHead(name, list(tensor.shape), stride, size, tensor.requires_grad))


def _extent(shape: torch.Size | list[int], stride: list[int]) -> int:
    """How many elements a storage must have for this shape and stride."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


# -------------------------------------------------------------------------------------------- decoding


def lengths(prefix: bytes, header_max: int) -> tuple[int, int]:
    """The two lengths of a frame, checked before anything is allocated."""
    header, payload = PREFIX.unpack(prefix)
    if header > header_max or payload > PAYLOAD_MAX:
        raise MalformedFrame(f"a frame of {header} + {payload} bytes")
    return header, payload


def whole_frames(received: bytearray, header_max: int) -> list[bytes]:
    """Takes the frames that are complete off the front. Raises MalformedFrame for lengths out of bounds."""
    found, at = [], 0
    while len(received) - at >= PREFIX.size:
        size = PREFIX.size + sum(lengths(bytes(received[at : at + PREFIX.size]), header_max))
        if len(received) - at < size:
            break
        found.append(bytes(received[at : at + size]))
        at += size
    del received[:at]
    return found


def decode_request(frame: bytes | bytearray) -> Request:
    """The message of a whole frame, prefix included."""
    message: Request = _decode(frame, _REQUESTS, REQUEST_HEADER_MAX, hostile=False)
    return message


def decode_reply(frame: bytes | bytearray) -> Reply:
    """The message of a whole frame, prefix included. Raises MalformedFrame and nothing else."""
    reply: Reply = _decode(frame, _REPLIES, REPLY_HEADER_MAX, hostile=True)
    return reply


def _decode(frame: bytes | bytearray, decoder: Any, header_max: int, hostile: bool) -> Any:
    view = memoryview(frame)
    if len(view) < PREFIX.size:
        raise MalformedFrame("shorter than its prefix")
    header_size, payload_size = lengths(bytes(view[: PREFIX.size]), header_max)
    if len(view) != PREFIX.size + header_size + payload_size:
        raise MalformedFrame("the length does not agree with the prefix")
    header = view[PREFIX.size : PREFIX.size + header_size]
    reader = _reading.reader = _Reader(view[PREFIX.size + header_size :], hostile)
    try:
        message = decoder.decode(header)
    except MalformedFrame:
        raise
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError, RuntimeError, OverflowError) as error:
        raise MalformedFrame(f"{type(error).__name__}: {error}"[:200]) from None
    finally:
        del _reading.reader
    if reader.read != payload_size:
        raise MalformedFrame("bytes that no tensor claims")
    return message


class _Reader:
    """Builds the values of one frame; tensors take their bytes from the payload in turn."""

    def __init__(self, payload: memoryview, hostile: bool) -> None:
        self.payload = payload
        self.hostile = hostile
        self.read = 0

    def extension(self, code: int, data: memoryview) -> Any:
        make = self.KINDS.get(code)
        if make is None:
            raise MalformedFrame(f"extension {code}")
        return make(self, data)

    def tensor(self, data: memoryview) -> torch.Tensor:
        head = _HEADS.decode(data)
        dtype = DTYPES.get(head.dtype)
        if dtype is None:
            raise MalformedFrame("an unknown dtype")
        end = self.read + head.nbytes
        if self._stored(head) * dtype.itemsize != head.nbytes or end > len(self.payload):
            raise MalformedFrame("the shape does not agree with the bytes")
        tensor = _from_bytes(self.payload[self.read : end], dtype, self.hostile)
        self.read = end
        tensor = tensor.view(head.shape) if head.stride is None else tensor.as_strided(head.shape, head.stride)
        return tensor.requires_grad_() if head.requires_grad and not self.hostile else tensor

    def _stored(self, head: _TensorHead) -> int:
        """How many elements come with a tensor."""
        count = math.prod(head.shape)
        if (count or math.prod(filter(None, head.shape))) > ELEMENTS_MAX:
            raise MalformedFrame("a tensor of too many elements")
        if head.stride is None:
            return count
        if self.hostile or len(head.stride) != len(head.shape):
            raise MalformedFrame("a stride")
        return _extent(head.shape, head.stride)

    def dtype(self, data: memoryview) -> torch.dtype:
        dtype = DTYPES.get(bytes(data).decode(errors="replace"))
        if dtype is None:
            raise MalformedFrame("an unknown dtype")
        return dtype

    KINDS: ClassVar[dict[int, Callable[[_Reader, memoryview], Any]]] = {
        _TENSOR: tensor,
        _HANDLE: lambda _, data: msgspec.msgpack.decode(data, type=Handle),
        _OPAQUE: lambda _, data: msgspec.msgpack.decode(data, type=Opaque),
        _STREAM: lambda _, data: msgspec.msgpack.decode(data, type=Stream),
        _DTYPE: dtype,
    }


class _Reading(threading.local):
    """The reader of the frame that this thread decodes: a msgspec decoder is slow to make, so all frames share one."""

    reader: _Reader


_reading = _Reading()


def _extension(code: int, data: memoryview) -> Any:
    return _reading.reader.extension(code, data)


_REQUESTS = msgspec.msgpack.Decoder(Request, ext_hook=_extension)
_REPLIES = msgspec.msgpack.Decoder(Reply, ext_hook=_extension)
_HEADS = msgspec.msgpack.Decoder(_TensorHead)
_EXTENSIONS: dict[type, int] = {Handle: _HANDLE, Opaque: _OPAQUE, Stream: _STREAM}


def _from_bytes(chunk: memoryview, dtype: torch.dtype, hostile: bool) -> torch.Tensor:
    """A flat tensor of its own memory. A bool that is neither 0 nor 1, which only a hostile one is, becomes True."""
    if not chunk:
        return torch.empty(0, dtype=dtype)
    if dtype is torch.bool and hostile:
        return torch.frombuffer(bytearray(chunk), dtype=torch.uint8) != 0
    return torch.frombuffer(bytearray(chunk), dtype=dtype)
