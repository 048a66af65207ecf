# SPDX-License-Identifier: Apache-2.0
"""Converts the arguments of cep.Profiler to libcep's options struct."""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

from . import _ffi
from ._attributes import meta_text
from ._errors import EJSON, EOPTION, OptionError

PathText = Union[str, "os.PathLike[str]"]
Config = Union[PathText, Mapping[str, Any]]

DIRECTORY_NAME = "cuda_event_profiler"

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
# These limits keep a value from being truncated to its field's type, and -1 from meaning "ask the launcher". libcep
# checks everything else.
_WHOLE_NUMBERS = {
    "rank": (0, _INT32[1]),
    "world_size": (0, _INT32[1]),
    "local_rank": (0, _INT32[1]),
    "start_step": _INT64,
    "end_step": _INT64,
    "record_every_n_steps": _INT64,
    "flush_every_n_steps": _INT64,
    "max_file_bytes": _INT64,
    "ring_capacity": _INT64,
    "pool_limit": _INT64,
}
_NUMBERS = ("max_overhead_percent",)
_CHOICES = {"layout": _ffi.LAYOUTS, "backend": _ffi.BACKENDS}


def _whole_number(name: str, value: object, limits: tuple[int, int]) -> int:
    try:
        number = value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        raise OptionError(EOPTION, f"{name}: a whole number is needed, not {value!r}") from None
    if not limits[0] <= number <= limits[1]:
        raise OptionError(EOPTION, f"{name}: {value!r} is outside {limits[0]} to {limits[1]}")
    return int(number)


def _number(name: str, value: object) -> float:
    if isinstance(value, (str, bytes, bool)):
        raise OptionError(EOPTION, f"{name}: a number is needed, not {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise OptionError(EOPTION, f"{name}: a number is needed, not {value!r}") from None


def _choice(name: str, value: object, choices: Mapping[str, int]) -> int:
    if isinstance(value, str) and value in choices:
        return choices[value]
    raise OptionError(EOPTION, f"{name}: {value!r} is none of {', '.join(choices)}")


def kind_number(kind: str) -> int:
    """The CEP_KIND_… number of a kind's name."""
    return _choice("kind", kind, _ffi.KINDS)


def _text(name: str, value: PathText) -> bytes:
    try:
        text = os.fsencode(value)
    except TypeError:
        raise OptionError(EOPTION, f"{name}: a string is needed, not {value!r}") from None
    if b"\0" in text:
        raise OptionError(EOPTION, f"{name}: {value!r} contains a NUL")
    return text


def _rank_array(ranks: object) -> Any:
    try:
        numbers = [_whole_number("ranks", rank, (0, _INT32[1])) for rank in ranks]  # type: ignore[attr-defined]
    except TypeError:
        raise OptionError(EOPTION, f"ranks: a sequence of ranks is needed, not {ranks!r}") from None
    if not numbers:
        raise OptionError(EOPTION, "ranks: empty; leave it out for all ranks, or pass enable=False")
    return (ctypes.c_int32 * len(numbers))(*numbers)


# How trainers' own configurations wrap these options, in YAML mostly.
_SWITCH, _WRAPPED = "enable_cuda_event_profiler", "cuda_event_profiler_config"


def _unwrapped(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options in a trainer's whole configuration: of the section that has a wrapper's key, if one has; else itself."""
    if _SWITCH in config or _WRAPPED in config:
        inner = config.get(_WRAPPED) or {}
        if not isinstance(inner, Mapping):
            raise OptionError(EOPTION, f"{_WRAPPED}: a mapping is needed, not {inner!r}")
        return {"enable": bool(config.get(_SWITCH, True)), **inner}
    sections = (section for section in config.values() if isinstance(section, Mapping))
    return next((_unwrapped(section) for section in sections if _SWITCH in section or _WRAPPED in section), config)


def _yaml_file(path: str) -> Mapping[str, Any]:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise OptionError(EOPTION, f"config: {path}: reading YAML needs the package pyyaml") from error
    try:
        with open(path, encoding="utf-8") as file:
            read = yaml.safe_load(file)
    except (OSError, yaml.YAMLError) as error:
        raise OptionError(EOPTION, f"config: {path}: {error}") from None
    if not isinstance(read, Mapping):
        raise OptionError(EOPTION, f"config: {path}: holds no mapping of options")
    return read


def _config_text(config: Config) -> bytes:
    if not isinstance(config, Mapping):
        text = _text("config", config)
        if not text.endswith((b".yaml", b".yml")):
            return text
        config = _yaml_file(os.fsdecode(text))
    try:
        return json.dumps(dict(_unwrapped(config)), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise OptionError(EJSON, f"config: {error}") from None


def _set_explicit(options: _ffi.Options, explicit: Mapping[str, Any]) -> None:
    for name, value in explicit.items():
        if value is None:
            continue
        if name in _WHOLE_NUMBERS:
            setattr(options, name, _whole_number(name, value, _WHOLE_NUMBERS[name]))
        elif name in _NUMBERS:
            setattr(options, name, _number(name, value))
        elif name in _CHOICES:
            setattr(options, name, _choice(name, value, _CHOICES[name]))
        elif name == "enable":
            options.enable = 1 if value else 0
        elif name == "ranks":
            array = _rank_array(value)
            options.ranks = ctypes.cast(array, ctypes.POINTER(ctypes.c_int32))
            options.ranks_count = len(array)
        elif name == "meta":
            options.meta = meta_text(value)
        else:
            setattr(options, name, _text(name, value))


def one_directory(output_dir: Optional[PathText], directory: Optional[PathText]) -> Optional[PathText]:
    """The directory of the rank files, of the two ways to say it."""
    if output_dir is None:
        return directory
    try:
        inside = Path(output_dir) / DIRECTORY_NAME
    except TypeError:
        raise OptionError(EOPTION, f"output_dir: a path is needed, not {output_dir!r}") from None
    if directory is not None and Path(os.fsdecode(directory)).absolute() != inside.absolute():
        raise OptionError(
            EOPTION, f"directory: {os.fspath(directory)!r} and output_dir, whose rank files are in {str(inside)!r}: set one"
        )
    return inside


def rank_file(options: _ffi.Options, rank: int) -> Path:
    """The path of the rank file of a profiler that was opened with these options."""
    directory = Path(os.fsdecode(options.directory) if options.directory else DIRECTORY_NAME)
    return directory.absolute() / f"cuda_events_rank_{rank}.jsonl"


class Sampling(NamedTuple):
    """The window, stride and flush cadence of one profiler: cep_step()'s rule again, so that a step that changes nothing needs no
    call into libcep."""

    first: int
    last: int
    every: int
    flush_every: int

    def records(self, step: int) -> bool:
        return self.first <= step <= self.last and (step - self.first) % self.every == 0

    def following(self, step: int) -> float:
        """The first recorded step after this one; infinity if there is none."""
        found = max(self.first, step + self.every - (step - self.first) % self.every)
        return found if found <= self.last else math.inf

    def flushes(self, step: int) -> bool:
        return step % self.flush_every == 0


@contextmanager
def options_struct(
    *, on_by_default: bool, config: Optional[Config], explicit: Mapping[str, Any]
) -> Iterator[_ffi.Options]:
    """Fills an options struct for the time of a ``with`` block: defaults, then environment, config, explicit values.

    The first load call on a struct sets ``enable`` to false unless its input sets it. For a profiler that is on by
    default, an empty configuration is loaded first and ``enable`` is set after it.
    """
    options = _ffi.Options()
    reference = ctypes.byref(options)
    _ffi.check(_ffi.options_init(reference, ctypes.sizeof(options)))
    try:
        if on_by_default:
            _ffi.check(_ffi.options_load_json(reference, b"{}"))
            options.enable = 1
        _ffi.check(_ffi.options_load_env(reference))
        if config is not None:
            _ffi.check(_ffi.options_load_json(reference, _config_text(config)))
        _set_explicit(options, explicit)
        yield options
    finally:
        _ffi.options_clear(reference)
