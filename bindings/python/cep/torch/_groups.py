# SPDX-License-Identifier: Apache-2.0
"""The names of process groups in rows, and the index of each collective within its group."""

from __future__ import annotations

import threading
import weakref
import zlib
from typing import Any, Callable, NamedTuple, Optional, cast

from .._attributes import GROUP_MAX_BYTES
from .._native import Indices
from ._pytorch import ProcessGroup, dist, torch

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

    "world" for the default group. For others: what the group is for, if PyTorch knows (the dimension of a device mesh), its
    ranks, and PyTorch's name of it: "dp:0-6/2#3".
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
        return known[1] if known is not None and known[0]() is group else self._add(group)

    def _add(self, group: ProcessGroup) -> Group:
        with self._lock:
            name = self._names.get(group) or default_name(group)
            indices = self._indices.setdefault(name, Indices())
            found = Group(name, dist.get_world_size(group), _runs_on_device(group), indices)
            self.known[id(group)] = weakref.ref(group), found
            return found

    def between(self, group: ProcessGroup, source: int, target: int) -> Group:
        """The two ends of a message as a group of their own, so that both ends count the same messages."""
        return self._pair(self.find(group), f"{source}>{target}")

    def exchanging(self, group: ProcessGroup, one: int, other: int) -> Group:
        """The two ends of messages in both directions."""
        return self._pair(self.find(group), f"{min(one, other)}-{max(one, other)}")

    def _pair(self, whole: Group, ends: str) -> Group:
        name = shortened(f"{whole.name}/{ends}")
        with self._lock:
            indices = self._indices.setdefault(name, Indices())
        return Group(name, 2, whole.on_device, indices)
