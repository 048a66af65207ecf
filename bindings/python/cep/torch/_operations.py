# SPDX-License-Identifier: Apache-2.0
"""The functions of torch.distributed that move data: their names in rows, how many bytes a call moves, and other code for them
for a while: they stay the same objects. And the names of process groups in rows."""

from __future__ import annotations

import inspect
import threading
import weakref
import zlib
from types import CodeType, FunctionType
from typing import Any, Callable, Mapping, NamedTuple, Optional, cast

from .._attributes import GROUP_MAX_BYTES
from .._native import Indices
from ._pytorch import ProcessGroup, Tensor, dist, torch

Keywords = Mapping[str, Any]
Codes = tuple[FunctionType, CodeType, CodeType]
"""A function, its own code, and the other."""

COLLECTIVE, MESSAGE, BATCH = "collective", "message", "batch"


class Operation(NamedTuple):
    """One function of torch.distributed."""

    function: str
    name: str
    """The name in rows, the same for all functions that do the same."""
    sized_by: str = ""
    """The parameter whose size is measured."""
    is_part: bool = False
    """Whether that is one of as many parts of the message as there are ranks."""
    shape: str = COLLECTIVE
    peer: str = ""
    """For messages: the parameter that names the other rank."""
    is_async: bool = False
    """Whether it always returns before its result is ready; others do where the caller asks for it."""


# Bytes are counted as in nccl-tests: the whole message of a group, which is the output of an all_gather and the input
# of a reduce_scatter.
OPERATIONS = (
    Operation("all_reduce", "all_reduce", "tensor"),
    Operation("all_reduce_coalesced", "all_reduce", "tensors"),
    Operation("broadcast", "broadcast", "tensor"),
    Operation("reduce", "reduce", "tensor"),
    Operation("all_gather", "all_gather", "tensor_list"),
    Operation("all_gather_coalesced", "all_gather", "input_tensor_list", is_part=True),
    Operation("all_gather_into_tensor", "all_gather", "output_tensor"),
    Operation("all_gather_single", "all_gather", "output_tensor"),  # all_gather_into_tensor's name since 2.13
    Operation("_all_gather_base", "all_gather", "output_tensor"),
    Operation("reduce_scatter", "reduce_scatter", "input_list"),
    Operation("reduce_scatter_tensor", "reduce_scatter", "input"),
    Operation("reduce_scatter_single", "reduce_scatter", "input"),
    Operation("_reduce_scatter_base", "reduce_scatter", "input"),
    Operation("all_to_all", "all_to_all", "input_tensor_list"),
    Operation("all_to_all_single", "all_to_all", "input"),
    Operation("gather", "gather", "tensor", is_part=True),
    Operation("scatter", "scatter", "tensor", is_part=True),
    Operation("barrier", "barrier"),
    Operation("send", "send", "tensor", shape=MESSAGE, peer="dst"),
    Operation("recv", "recv", "tensor", shape=MESSAGE, peer="src"),
    Operation("isend", "send", "tensor", shape=MESSAGE, peer="dst", is_async=True),
    Operation("irecv", "recv", "tensor", shape=MESSAGE, peer="src", is_async=True),
    Operation("batch_isend_irecv", "send_recv", "p2p_op_list", shape=BATCH, is_async=True),
)


def _tensors_of(value: Any) -> list[Tensor]:
    """The tensors of a list of tensors or of messages."""
    members = value if isinstance(value, (list, tuple)) else ()
    tensors = (getattr(member, "tensor", member) for member in members)
    return [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]


class Function:
    """A function of torch.distributed as the installed version has it, and how to read its arguments."""

    __slots__ = ("operation", "inner", "original", "was_called", "name", "whole_tensor", "is_message")

    def __init__(self, operation: Operation, inner: FunctionType) -> None:
        self.operation = operation
        self.inner = inner
        """The function itself, without PyTorch's decorators."""
        self.original: Callable[..., Any] = twin_of(inner)
        self.was_called = False
        # What the extension module reads.
        self.name = operation.name
        is_usual = operation.shape == COLLECTIVE and not operation.is_part
        self.whole_tensor = operation.sized_by if is_usual else None
        """The parameter whose size is that of the message, where it is one tensor."""
        self.is_message = operation.is_async
        """Whether a call returns a Work, or several, that no future ends."""

    def size(self, given: Keywords, group_size: int) -> tuple[Optional[int], Optional[bool]]:
        """The bytes of the message, None if there are none; and whether it is on a CUDA device, None without a tensor."""
        value = given.get(self.operation.sized_by)
        tensors = [value] if isinstance(value, torch.Tensor) else _tensors_of(value)
        total = sum(int(tensor.nbytes) for tensor in tensors) * (group_size if self.operation.is_part else 1)
        return total or None, bool(tensors[0].is_cuda) if tensors else None


def available_functions() -> list[Function]:
    """The functions that the installed version of PyTorch has, and that nobody has replaced by something else."""
    found = ((operation, getattr(dist, operation.function, None)) for operation in OPERATIONS)
    inner = ((operation, inspect.unwrap(function)) for operation, function in found if callable(function))
    return [Function(operation, function) for operation, function in inner if isinstance(function, FunctionType)]


def twin_of(function: FunctionType) -> FunctionType:
    """Another function with the code that a function has now."""
    twin = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _calling(function: FunctionType, name: str) -> CodeType:
    """Code with the parameters of a function, which torch.compile reads, that passes them on to a global of its module: by name,
    as a dictionary, and then as they are."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    bare = [one.replace(default=one.empty, annotation=one.empty) for one in parameters]
    by_name = [one for one in bare if one.kind is not one.VAR_POSITIONAL]  # as somebody's wrapper has
    named = ", ".join(str(one) if one.kind is one.VAR_KEYWORD else f"{one.name!r}: {one.name}" for one in by_name)
    given = [f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else str(one) for one in bare]
    free = ", ".join(function.__code__.co_freevars)
    text = (
        f"def make({free}):\n"
        f"    def {function.__name__}{inspect.Signature(bare)}:\n"
        f"        {free or None}\n"  # a function's code has as many free variables as its closure
        f"        return {name}({{{named}}}, {', '.join(given)})\n"
        f"    return {function.__name__}\n"
    )
    made: dict[str, Any] = {}
    exec(compile(text, function.__code__.co_filename, "exec"), made)
    code: CodeType = made["make"](*[None] * len(function.__code__.co_freevars)).__code__
    return code


def codes_of(function: FunctionType, called: Callable[..., Any]) -> Codes:
    """What turn_codes() takes, in C, to have a function of a module run another in the place of its own code."""
    name = f"_cep_timed_{function.__name__}"
    function.__globals__[name] = called
    return function, function.__code__, _calling(function, name)


# ---- Groups

_ProcessGroup: Any = getattr(dist, "ProcessGroup", ())


class Group(NamedTuple):
    """What the rows of a process group's collectives have in common."""

    name: str
    size: int
    """Number of ranks."""
    on_device: bool
    """Whether its collectives without a tensor (barriers) run on the device."""
    indices: Indices
    """The step times a million, plus how many came before in the step. So ranks need not count on steps that they do not
    record, and a rank that has recorded other steps than the others still has the same index for the same collective.
    Where steps go back, the indices go on."""


def compact_ranks(ranks: list[int]) -> str:
    """Ranks as short text: "0-3", with a stride "0-6/2", else "0,1,5"."""
    if len(ranks) > 2:
        stride = ranks[1] - ranks[0]
        if stride > 0 and ranks == list(range(ranks[0], ranks[-1] + 1, stride)):
            return f"{ranks[0]}-{ranks[-1]}" + (f"/{stride}" if stride > 1 else "")
    return ",".join(map(str, ranks))


def shortened(text: str) -> str:
    """The text, cut to the length that a row's group may have. A text that is cut ends in its checksum."""
    if len(text.encode()) <= GROUP_MAX_BYTES:
        return text
    kept = text.encode()[: GROUP_MAX_BYTES - 9].decode("utf-8", "ignore")
    return f"{kept}~{zlib.crc32(text.encode()):08x}"


def _at_most(length: int, text: str) -> str:
    """The text, or its checksum."""
    return text if len(text) <= length else f"{zlib.crc32(text.encode()):08x}"


def default_name(group: Any) -> str:
    """A name that all ranks of the group have for it and no other group has.

    "world" for the default group. For others: what the group is for, if PyTorch knows (the dimension of a device mesh),
    its ranks, and PyTorch's name of it: "dp:0-6/2#3".
    """
    if group is dist.GroupMember.WORLD:
        return "world"
    purpose = str(getattr(group, "group_desc", "") or "undefined").removeprefix("mesh_")
    purpose = "group" if purpose in ("undefined", "default_pg") else purpose
    ranks = compact_ranks(dist.get_process_group_ranks(group))
    return shortened(f"{purpose}:{_at_most(24, ranks)}#{_at_most(8, str(group.group_name))}")


def resolve_group(group: Any) -> Optional[ProcessGroup]:
    """The process group that an argument means; None if this process is not in it, or there is none."""
    if group is None:
        return cast("Optional[ProcessGroup]", dist.GroupMember.WORLD)
    return group if isinstance(group, _ProcessGroup) else None


def _runs_on_device(group: ProcessGroup) -> bool:
    return bool(torch.cuda.is_initialized() and "nccl" in str(dist.get_backend(group)))


class Groups:
    """The process groups that this process has used, by their names.

    Thread-safe.
    """

    def __init__(self) -> None:
        # By id(). The weak reference shows whether the id still belongs to that group. A weak dictionary is slower.
        self.known: dict[int, tuple[Callable[[], Any], Group]] = {}
        # By name, so that a group that is destroyed and made again goes on counting.
        self._indices: dict[str, Indices] = {}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def set_name(self, group: ProcessGroup, name: str) -> None:
        """Names a group. All its ranks have to use the same name. Its ranks are appended unless it has all ranks."""
        if dist.get_world_size(group) < dist.get_world_size():
            name = f"{name}:{compact_ranks(dist.get_process_group_ranks(group))}"
        with self._lock:
            self._names[group] = shortened(name)
            self.known.pop(id(group), None)

    def find(self, group: ProcessGroup) -> Group:
        known = self.known.get(id(group))
        if known is not None and known[0]() is group:
            return known[1]
        with self._lock:
            name = self._names.get(group) or default_name(group)
            indices = self._indices.setdefault(name, Indices())
            found = Group(name, dist.get_world_size(group), _runs_on_device(group), indices)
            self.known[id(group)] = weakref.ref(group), found
            return found

    def pair(self, group: ProcessGroup, ends: str) -> Group:
        """The two ends of a message as a group of their own, so that both ends count the same messages: "0>1", or "0-1"
        of messages in both directions."""
        whole = self.find(group)
        name = shortened(f"{whole.name}/{ends}")
        with self._lock:
            indices = self._indices.setdefault(name, Indices())
        return Group(name, 2, whole.on_device, indices)
