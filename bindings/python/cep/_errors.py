# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package, with the codes of <cep/cep.h> that they carry, and messages to a user. No message
raises, whatever has become of standard error."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Iterator

OK = 0
EINVAL = -1
EOPTION = -2
EJSON = -3
EIO = -4
ENOMEM = -5
ETIMEDOUT = -6
ELIMIT = -7
EINTERNAL = -8

# Generators raise and receive these at the end of an iteration, which is no failure of the phase.
NOT_FAILURES = (GeneratorExit, StopIteration, StopAsyncIteration)

_INVALID_VALUE_CODES = frozenset((EINVAL, EOPTION, EJSON))


class Error(RuntimeError):
    """A call into libcep failed.

    Attributes:
        code: The negative ``CEP_E…`` code. A newer library may return codes that this package has no name for.
        message: One line that names the option, path or CUDA error concerned.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return type(self), (self.code, self.message)


class OptionError(Error, ValueError):
    """A value given by the caller, a configuration or the environment is invalid; nothing was changed."""


def error_for(code: int, message: str) -> Error:
    """The exception for a code: OptionError if the caller can correct the value, else Error."""
    return OptionError(code, message) if code in _INVALID_VALUE_CODES else Error(code, message)


_told: set[str] = set()


def say(message: str, who: str = "cep run") -> None:
    """Writes a line to standard error, which is no part of a script's output."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there is no stderr any more
        print(f"{who}: {message}", file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Failures are warnings: a profiler must not end a job that does its work."""
    with contextlib.suppress(RuntimeWarning):  # raised where warnings are errors
        warnings.warn(f"cep: {message}", RuntimeWarning, stacklevel=3)


@contextlib.contextmanager
def warned(what: str) -> Iterator[None]:
    """A block whose failure is a warning that begins so."""
    try:
        yield
    except Exception as error:
        warn(f"{what}: {type(error).__name__}: {error}")


def tell_mistake(rank: int, kind: str, message: str) -> None:
    """Tells a user of a mistake, and how to mend it, once for each kind in a process, and on rank 0 alone: all ranks make the
    same mistake."""
    if rank == 0 and kind not in _told:
        _told.add(kind)
        say(message, "cep")
