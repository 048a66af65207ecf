# SPDX-License-Identifier: Apache-2.0
"""Converts CUDA streams to the addresses that libcep takes, and finds PyTorch's current stream."""

from __future__ import annotations

import sys
from ctypes import c_void_p, sizeof
from typing import Callable, Optional, Protocol, Union

from ._errors import EINVAL, OptionError


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

HOST_ADDRESS: int = 2 ** (8 * sizeof(c_void_p)) - 1  # CEP_HOST

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
