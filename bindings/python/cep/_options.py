# SPDX-License-Identifier: Apache-2.0
"""Converts the arguments of cep.Profiler to libcep's options struct."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from . import _ffi
from ._attributes import meta_text, plain_number
from ._errors import EJSON, EOPTION, OptionError

PathText = Union[str, "os.PathLike[str]"]
Config = Union[PathText, Mapping[str, Any]]

DIRECTORY_NAME = "cuda_event_profiler"
_FROM_LAUNCHER = ("rank", "world_size", "local_rank")


def _plain(value: object) -> Any:
    """Numbers and sequences of other libraries (numpy.int64, range) for json."""
    return list(value) if isinstance(value, Iterable) else plain_number(value)


def _json(name: str, value: object) -> bytes:
    """The JSON text of one option."""
    if name in _FROM_LAUNCHER and value == -1:  # to libcep: find it
        raise OptionError(EOPTION, f"{name}: -1 is negative")
    try:
        return json.dumps({name: value}, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise OptionError(EOPTION, f"{name}: {value!r}: {error}") from None


def kind_number(kind: str) -> int:
    """The CEP_KIND_… number of a kind's name."""
    if isinstance(kind, str) and kind in _ffi.KINDS:
        return _ffi.KINDS[kind]
    raise OptionError(EOPTION, f"kind: {kind!r} is none of {', '.join(_ffi.KINDS)}")


def _text(name: str, value: PathText) -> bytes:
    try:
        text = os.fsencode(value)
    except TypeError:
        raise OptionError(EOPTION, f"{name}: a string is needed, not {value!r}") from None
    if b"\0" in text:
        raise OptionError(EOPTION, f"{name}: {value!r} contains a NUL")
    return text


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
    """libcep checks what it is given. Paths need not be of UTF-8, so they do not go through JSON."""
    given = {name: value for name, value in explicit.items() if value is not None}
    directory, meta = given.pop("directory", None), given.pop("meta", None)
    if "enable" in given:
        given["enable"] = bool(given["enable"])
    for name, value in given.items():
        _ffi.check(_ffi.options_load_json(ctypes.byref(options), _json(name, value)))
    if directory is not None:
        options.directory = _text("directory", directory)
    if meta is not None:
        options.meta = meta_text(meta)


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

    def flushes(self, step: int) -> bool:
        return step % self.flush_every == 0


@contextmanager
def options_struct(*, on_by_default: bool, config: Optional[Config], explicit: Mapping[str, Any]) -> Iterator[_ffi.Options]:
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
