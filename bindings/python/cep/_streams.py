# SPDX-License-Identifier: Apache-2.0
"""Converts CUDA streams to the pointers that libcep takes, and finds PyTorch's current stream."""

from __future__ import annotations

import sys
from ctypes import c_void_p
from typing import Any, Callable, Optional, Union

from ._errors import EINVAL, OptionError


class HostClock:
    """The type of cep.HOST."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "cep.HOST"


HOST = HostClock()
"""As a stream: time this span on the host clock only (data loading, checkpointing)."""

Stream = Union[None, int, HostClock, Any]

HOST_POINTER = c_void_p(-1)
DEFAULT_POINTER = c_void_p(None)  # the legacy default stream


def stream_pointer(stream: Stream) -> Optional[c_void_p]:
    """The pointer of the stream that a caller passed. None: each span uses the stream that is current at its begin.

    Accepts None, cep.HOST, an integer cudaStream_t, and objects with ``cuda_stream`` (PyTorch) or ``ptr`` (CuPy).
    """
    if stream is None:
        return None
    if stream is HOST:
        return HOST_POINTER
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return c_void_p(handle)
    if isinstance(stream, int) and not isinstance(stream, bool):
        return c_void_p(stream)
    raise OptionError(EINVAL, f"stream: {stream!r} is neither a stream object, an integer, cep.HOST nor None")


class _Pointers(dict[int, c_void_p]):
    """Maps raw streams to pointers, and makes each pointer once."""

    def __missing__(self, raw: int) -> c_void_p:
        pointer = self[raw] = c_void_p(raw)
        return pointer


def current_stream_finder() -> Optional[Callable[[], c_void_p]]:
    """A function that returns PyTorch's current stream. None until this process uses CUDA through PyTorch.

    Never imports PyTorch, never initialises CUDA. torch.cuda.current_stream() builds an object and costs 4 µs; the
    two raw calls cost 0.1 µs.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        if not torch.cuda.is_initialized():
            return None
    except AttributeError:  # half imported, or a build without torch.cuda
        return None
    return _finder(torch)


def _finder(torch: Any) -> Callable[[], c_void_p]:
    pointers = _Pointers()
    try:
        raw_stream, device = torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice
    except AttributeError:
        return lambda: pointers[torch.cuda.current_stream().cuda_stream]
    if _knows_current_device(raw_stream, device()):
        return lambda: pointers[raw_stream(-1)]
    return lambda: pointers[raw_stream(device())]


def _knows_current_device(raw_stream: Callable[[int], int], device: int) -> bool:
    """Whether -1 means the current device, as in PyTorch's C++ API. That saves a call for each span."""
    try:
        return raw_stream(-1) == raw_stream(device)
    except Exception:
        return False
