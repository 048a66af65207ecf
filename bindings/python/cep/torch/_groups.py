# SPDX-License-Identifier: Apache-2.0
"""Process groups as rows name them, and the index of each collective within its group."""

from __future__ import annotations

import itertools
import threading
import weakref
import zlib
from typing import Any, Callable, Iterator, NamedTuple, Optional

from .._attributes import GROUP_MAX_BYTES
from ._pytorch import ProcessGroup, dist, torch

_c10d: Any = torch.distributed.distributed_c10d if dist.is_available() else None
_ProcessGroup: Any = getattr(dist, "ProcessGroup", ())
_ID_LENGTH = 8


class Group(NamedTuple):
    """What the rows of a process group's collectives have in common."""

    name: str
    size: int
    """Number of ranks."""
    on_device: bool
    """Whether its collectives without a tensor (barriers) run on the device."""
    counts: Iterator[int]
    """The indices of its collectives, from 0."""


def compact_ranks(ranks: list[int]) -> str:
    """Ranks as short text: "0-3", with a stride "0-6/2", else "0,1,5"."""
    if len(ranks) > 2:
        stride = ranks[1] - ranks[0]
        if stride > 0 and ranks == list(range(ranks[0], ranks[-1] + 1, stride)):
            return f"{ranks[0]}-{ranks[-1]}" + (f"/{stride}" if stride > 1 else "")
    return ",".join(map(str, ranks))


def shortened(text: str) -> str:
    """At most as long as a row's group may be; a longer text ends in its checksum."""
    if len(text.encode()) <= GROUP_MAX_BYTES:
        return text
    kept = text.encode()[: GROUP_MAX_BYTES - 9].decode("utf-8", "ignore")
    return f"{kept}~{zlib.crc32(text.encode()):08x}"


def _identity(group: ProcessGroup) -> str:
    """What PyTorch calls the group: the same on all its ranks, as they meet by it."""
    name: str = getattr(group, "group_name", "")
    if not name:  # before PyTorch 2.1
        names = getattr(_c10d, "_pg_names", None) or getattr(getattr(_c10d, "_world", None), "pg_names", {})
        name = names.get(group, "")
    return name if len(name) <= _ID_LENGTH else f"{zlib.crc32(name.encode()):08x}"


def _purpose(group: ProcessGroup) -> str:
    """What the group is for, as far as PyTorch was told: the dimension of a device mesh."""
    description = getattr(group, "group_desc", "") or ""
    if description in ("", "undefined", "default_pg"):
        return "group"
    return str(description[5:] if description.startswith("mesh_") else description)


def default_name(group: ProcessGroup) -> str:
    """A name that is the same on all ranks of the group and that no other group has.

    "world" for the default group; else what it is for, its ranks, and PyTorch's name of it: "dp:0-6/2#3".
    """
    if group is default_group():
        return "world"
    ranks = compact_ranks(dist.get_process_group_ranks(group))
    if len(ranks) > 24:
        ranks = f"{zlib.crc32(ranks.encode()):08x}"
    return shortened(f"{_purpose(group)}:{ranks}#{_identity(group)}")


def default_group() -> Optional[ProcessGroup]:
    try:
        return _c10d._get_default_group()
    except (RuntimeError, ValueError):  # no group yet, or no more
        return None


def resolved(group: Any) -> Optional[ProcessGroup]:
    """The process group that an argument stands for; None where this process is not in it."""
    if group is None:
        return default_group()
    if isinstance(group, _ProcessGroup):
        return group
    return default_group() if group is dist.GroupMember.WORLD else None


def _runs_on_device(group: ProcessGroup) -> bool:
    return bool(torch.cuda.is_initialized() and "nccl" in str(dist.get_backend(group)))


class Groups:
    """The process groups that this process has used, by their names.

    Thread-safe: indices are given out under the interpreter's lock.
    """

    def __init__(self) -> None:
        # By identity, beside a reference that says whether it is still the same: a weak dictionary is slower.
        self._known: dict[int, tuple[Callable[[], Any], Group]] = {}
        # By name: a group that is destroyed and made anew goes on counting.
        self._counts: dict[str, Iterator[int]] = {}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def call(self, group: ProcessGroup, name: str) -> None:
        """Gives a group a name of the caller's, the same on all its ranks. Its ranks follow unless it is all of
        them."""
        if dist.get_world_size(group) < dist.get_world_size():
            name = f"{name}:{compact_ranks(dist.get_process_group_ranks(group))}"
        with self._lock:
            self._names[group] = shortened(name)
            self._known.pop(id(group), None)

    def find(self, group: ProcessGroup) -> Group:
        known = self._known.get(id(group))
        return known[1] if known is not None and known[0]() is group else self._learn(group)

    def _learn(self, group: ProcessGroup) -> Group:
        with self._lock:
            name = self._names.get(group) or default_name(group)
            counts = self._counts.setdefault(name, itertools.count())
            found = Group(name, dist.get_world_size(group), _runs_on_device(group), counts)
            self._known[id(group)] = weakref.ref(group), found
            return found

    def between(self, group: ProcessGroup, source: int, target: int) -> Group:
        """The pair of ranks that a message passes between, as a group of its own: both ends count the same messages."""
        whole = self.find(group)
        name = shortened(f"{whole.name}/{source}>{target}")
        with self._lock:
            counts = self._counts.setdefault(name, itertools.count())
        return Group(name, 2, whole.on_device, counts)
