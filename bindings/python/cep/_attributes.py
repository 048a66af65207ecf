# SPDX-License-Identifier: Apache-2.0
"""What a caller says of a span: its attributes, and the struct in which libcep takes them; and its stream, whose
address libcep takes, and PyTorch's current one."""

from __future__ import annotations

import ctypes
import json
import math
import numbers
import sys
import warnings
from typing import Any, Callable, Mapping, NamedTuple, Optional, Protocol, Union

from ._errors import EINVAL, EJSON, OptionError
from ._ffi import Attrs

Meta = Union[str, Mapping[str, Any]]

GROUP_MAX_BYTES = 63
ERROR_MAX_BYTES = 63
META_MAX_BYTES = 16384
INT64_MAX = 2**63 - 1


class Attributes(NamedTuple):
    """The attributes of a span as the caller gave them. None: not given."""

    bytes: Optional[int] = None
    flops: Optional[float] = None
    group: Optional[str] = None
    coll: Optional[int] = None
    meta: Optional[Meta] = None
    is_async: bool = False
    """The span ends with its work, on any thread: it is no part of its thread's nesting."""


_ASYNC_FLAG = 1  # CEP_ATTRS_ASYNC


def plain_number(value: object) -> Union[int, float]:
    """Converts numbers of other libraries (numpy.int64) for json.

    Refuses tensors: reading one would synchronise the device.
    """
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def meta_text(meta: Meta) -> bytes:
    """The text of a JSON object for libcep. A mapping is serialised; a string is passed on as it is."""
    if isinstance(meta, str):
        if "\0" in meta:
            raise OptionError(EJSON, f"meta: the text contains a NUL: {meta[:100]!r}")
        return meta.encode()
    if not isinstance(meta, Mapping):
        raise OptionError(EJSON, f"meta: a mapping or JSON text is needed, not {type(meta).__name__}")
    try:
        return json.dumps(dict(meta), default=plain_number, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(EJSON, f"meta: {error}") from None


def name_bytes(name: object) -> bytes:
    """The name of a region, counter or mark for libcep, which checks what a C string can contain."""
    if isinstance(name, str) and name and "\0" not in name:
        return name.encode()
    raise OptionError(EINVAL, f"name: a string of 1 to 255 bytes without control characters, not {name!r}")


def whole_number(name: str, value: object, minimum: int) -> int:
    """Converts any kind of integer to an int. Refuses one that is below minimum or does not fit an int64."""
    # int comes first: the check against the abstract class takes ten times as long.
    if isinstance(value, (int, numbers.Integral)) and minimum <= int(value) <= INT64_MAX:
        return int(value)
    raise OptionError(EINVAL, f"{name}: a whole number of at least {minimum} is needed, not {value!r}")


def empty_struct(is_async: bool = False) -> Attrs:
    """A struct without attributes."""
    return Attrs(struct_size=ctypes.sizeof(Attrs), flags=_ASYNC_FLAG if is_async else 0, coll=-1)


def attributes_struct(given: Attributes) -> Attrs:
    """The struct of the given attributes. Raises an OptionError that names an invalid one."""
    struct = empty_struct(given.is_async)
    if given.bytes is not None:
        struct.bytes = whole_number("bytes", given.bytes, 0)
    if given.flops is not None:
        if not (isinstance(given.flops, numbers.Real) and math.isfinite(given.flops) and given.flops >= 0):
            raise OptionError(EINVAL, f"flops: a finite number of at least 0 is needed, not {given.flops!r}")
        struct.flops = float(given.flops)
    if given.group is not None:
        text = given.group.encode() if isinstance(given.group, str) else b""
        if not 0 < len(text) <= GROUP_MAX_BYTES or b"\0" in text:
            raise OptionError(EINVAL, f"group: a string of 1 to {GROUP_MAX_BYTES} bytes is needed, not {given.group!r}")
        struct.group = text
    if given.coll is not None:
        if given.group is None:
            raise OptionError(EINVAL, f"coll: {given.coll!r} is an index within a group, and no group is given")
        struct.coll = whole_number("coll", given.coll, 0)
    if given.meta is not None:
        struct.meta = meta_text(given.meta)
        if len(struct.meta) > META_MAX_BYTES:
            raise OptionError(EINVAL, f"meta: {len(struct.meta)} bytes; at most {META_MAX_BYTES} are kept with a span")
    return struct


def span_struct(given: Attributes) -> Attrs:
    """The struct for a span's begin. Never raises, because the span may begin at step 10,000 of a job: where an
    attribute is invalid, the span has none, libcep counts it (``dropped_meta``), and a warning names it."""
    try:
        return attributes_struct(given)
    except Exception as error:
        warnings.warn(f"cep: a span has no attributes: {error}", RuntimeWarning, stacklevel=4)
        struct = empty_struct(given.is_async)
        struct.meta = b"{"  # which libcep refuses
        return struct


def error_struct(error: type[BaseException]) -> Attrs:
    """The struct that marks a span whose body raised."""
    struct = empty_struct()
    struct.error = error.__name__.encode()[:ERROR_MAX_BYTES].decode("utf-8", "ignore").encode()
    return struct


# ---- Streams


class HostClock:
    """The type of cep.HOST."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "cep.HOST"


HOST = HostClock()
"""As a stream: time this span on the host clock only (data loading, checkpointing)."""


class PyTorchStream(Protocol):
    """torch.cuda.Stream."""

    @property
    def cuda_stream(self) -> int: ...


class CuPyStream(Protocol):
    """cupy.cuda.Stream."""

    @property
    def ptr(self) -> int: ...


Stream = Union[None, int, HostClock, PyTorchStream, CuPyStream]

HOST_ADDRESS: int = 2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1  # CEP_HOST

StreamSource = tuple[Callable[..., int], Optional[int]]
"""A function that returns the current stream's address, and its argument; None: it takes none."""


def stream_address(stream: Stream) -> Optional[int]:
    """The address of the stream that a caller passed. None: each span uses the stream that is current at its begin.

    Accepts None, cep.HOST, an integer cudaStream_t, and objects with ``cuda_stream`` (PyTorch) or ``ptr`` (CuPy).
    """
    if stream is None:
        return None
    if stream is HOST:
        return HOST_ADDRESS
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return _unsigned(handle)
    if isinstance(stream, int) and not isinstance(stream, bool):
        return _unsigned(stream)
    raise OptionError(EINVAL, f"stream: {stream!r} is neither a stream object, an integer, cep.HOST nor None")


def _unsigned(address: int) -> int:
    return address & HOST_ADDRESS


def current_stream_source(device: int = -1) -> Optional[StreamSource]:
    """How to get PyTorch's current stream of a device; −1: of the current one. None until this process uses CUDA through
    PyTorch.

    Never imports PyTorch, never initialises CUDA. torch.cuda.current_stream() builds an object and costs 4 µs; the raw call
    costs 0.1 µs.
    """
    torch = sys.modules.get("torch")
    try:
        is_used = torch is not None and torch.cuda.is_initialized()
    except AttributeError:  # half imported
        return None
    return (torch._C._cuda_getCurrentRawStream, device) if torch is not None and is_used else None


def exchange_device(device: int) -> int:
    """Makes a device of this thread current, and returns the one that was. For processes that use CUDA through PyTorch."""
    torch_c = sys.modules["torch"]._C
    before = int(torch_c._cuda_getDevice())
    if before != device:
        torch_c._cuda_setDevice(device)
    return before
