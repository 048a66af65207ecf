# SPDX-License-Identifier: Apache-2.0
"""What a profiler is told: by the launcher (which rank of which run this process is, where cep_open() cannot find it; and
what the processes tell `cep run` in turn: lines of JSON, a file for each, in a folder); by the framework and the
machine, as settings for the run row; and by the arguments of cep.Profiler, as libcep's options struct."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from . import _ffi
from ._attributes import meta_text, plain_number
from ._errors import EJSON, EOPTION, OptionError

VARIABLE = "CEP_RUN_RECORDS"
"""The environment variable that names the folder. Where it is set, processes are instrumented."""

_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_SIZE_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _first_number(names: tuple[str, ...]) -> Optional[int]:
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal()), None)


def _place_in_group() -> Optional[tuple[int, int]]:
    """This process's rank in PyTorch's default process group, and the group's size; None if there is none. Imports
    nothing."""
    dist = sys.modules.get("torch.distributed")
    with contextlib.suppress(Exception):  # half imported
        if dist is not None and dist.is_available() and dist.is_initialized():
            return int(dist.get_rank()), int(dist.get_world_size())
    return None


def rank_and_size() -> tuple[Optional[int], int]:
    """This process's rank and the number of ranks, by the process group, else by the launcher. The rank is None where
    neither tells it."""
    found = _place_in_group()
    if found is not None:
        return found
    return _first_number(_RANK_VARIABLES), _first_number(_SIZE_VARIABLES) or 1


def own_rank() -> int:
    """This process's rank by the process group, else by the launcher, else 0."""
    return rank_and_size()[0] or 0


def rank_in_job() -> Optional[int]:
    """This process's rank, for a profiler that was not told; None: 0, in a job of one process.

    Raises:
        OptionError: The launcher says that there are several processes, and nothing says which one this is.
    """
    rank, size = rank_and_size()
    if rank is None and size > 1:
        raise OptionError(
            EOPTION,
            f"rank: WORLD_SIZE is {size}, and nothing says which rank this process is: set RANK, pass rank=, or open the "
            "profiler after torch.distributed.init_process_group() (in Lightning: in a callback)",
        )
    return rank


def run_under_cep_run() -> Optional[str]:
    """The run's name under `cep run`, the same in all its processes; None: libcep finds one, by the launcher."""
    records = os.environ.get(VARIABLE)
    has_id = os.environ.get("TORCHELASTIC_RUN_ID", "none") != "none" or os.environ.get("SLURM_JOB_ID")
    if not records or has_id:
        return None
    namespace = os.environ.get("PMIX_NAMESPACE")  # where mpirun starts a launcher for each rank
    return f"mpi-{namespace}" if namespace else f"{socket.gethostname()}-{os.path.basename(records)}"


def tell(what: str, **facts: Any) -> bool:
    """Adds a record of this process. Returns whether the launcher can see it: the folder is not on other hosts."""
    folder = os.environ.get(VARIABLE, "")
    try:
        with open(Path(folder) / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, **facts}) + "\n")
        return True
    except OSError:
        return False


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records in a folder. A line that was cut off with its process is left out."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)


# ---- Settings

Settings = dict[str, Any]

# Names, never the environment: a variable that is not listed here may be a secret.
_VARIABLES = """
    CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUBLAS_WORKSPACE_CONFIG MKL_NUM_THREADS
    NCCL_ALGO NCCL_BUFFSIZE NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_DEBUG NCCL_IB_DISABLE NCCL_IB_HCA
    NCCL_MAX_NCHANNELS NCCL_MIN_NCHANNELS NCCL_NET NCCL_NET_GDR_LEVEL NCCL_NVLS_ENABLE NCCL_P2P_DISABLE
    NCCL_P2P_LEVEL NCCL_PROTO NCCL_SHM_DISABLE NCCL_SOCKET_IFNAME NVIDIA_TF32_OVERRIDE OMP_NUM_THREADS
    PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF TORCH_DISTRIBUTED_DEBUG TORCH_NCCL_ASYNC_ERROR_HANDLING
    TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_BLOCKING_WAIT
""".split()


def _of_torch(torch: Any) -> Settings:
    """Asks nothing that would initialise CUDA, which a fork does not survive."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    attention = ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp")
    return {
        "torch": str(torch.__version__),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "tf32": bool(cuda.matmul.allow_tf32),
        "cudnn_tf32": bool(cudnn.allow_tf32),
        "cudnn_benchmark": bool(cudnn.benchmark),
        "cudnn_deterministic": bool(cudnn.deterministic),
        "deterministic_algorithms": bool(torch.are_deterministic_algorithms_enabled()),
        "anomaly_detection": bool(torch.is_anomaly_enabled()),
        "threads": torch.get_num_threads(),
        **{name: bool(getattr(cuda, f"{name}_enabled")()) for name in attention if hasattr(cuda, f"{name}_enabled")},
    }


def _of_machine() -> Settings:
    affinity = getattr(os, "sched_getaffinity", None)
    cores: float = len(affinity(0)) if affinity else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # no limit: a word
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, int(quota) / int(period))
    settings: Settings = {"python": platform.python_version(), "cores": cores}
    local = os.environ.get("LOCAL_WORLD_SIZE", "") or os.environ.get("SLURM_NTASKS_PER_NODE", "")
    if local.isdecimal():
        settings["ranks_on_host"] = int(local)
    return settings


def read_settings() -> Settings:
    """The settings of this process now. A setting that this version of PyTorch does not have is left out."""
    settings: Settings = {}
    torch = sys.modules.get("torch")
    if torch is not None:
        try:
            settings.update(_of_torch(torch))
        except Exception:  # a version or a build without some of them
            settings["torch"] = str(getattr(torch, "__version__", "unknown"))
    settings.update(_of_machine())
    settings.update((name, os.environ[name]) for name in _VARIABLES if name in os.environ)
    return settings


def of_training(model: Any = None, optimizer: Any = None, loader: Any = None) -> Settings:
    """What a model, an optimizer and a DataLoader were told, as far as they say so."""
    settings: Settings = {}
    if model is not None:
        settings["compiled"] = hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None
        first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
        if first is not None:
            settings["device"] = first.device.type
            settings["parameters"] = str(first.dtype).removeprefix("torch.")
            filters = next((one for one in model.parameters() if one.dim() == 4 and one.shape[-1] > 1), None)
            if filters is not None:
                is_last = filters.is_contiguous(memory_format=sys.modules["torch"].channels_last)
                settings["convolutions"] = "channels_last" if is_last else "contiguous"
        for name in ("bucket_bytes_cap", "static_graph", "gradient_as_bucket_view", "find_unused_parameters"):
            if hasattr(model, name):
                settings[f"ddp_{name}"] = getattr(model, name)
        for name in ("sharding_strategy", "backward_prefetch", "forward_prefetch", "limit_all_gathers"):
            if hasattr(model, name):
                value = getattr(model, name)
                settings[f"fsdp_{name}"] = "none" if value is None else getattr(value, "name", value)
        inner = getattr(model, "module", model)
        settings["gradient_checkpointing"] = getattr(inner, "is_gradient_checkpointing", None)
        settings["attention"] = getattr(getattr(inner, "config", None), "_attn_implementation", None)
    if optimizer is not None:
        defaults = getattr(optimizer, "defaults", {})
        settings["optimizer"] = type(optimizer).__name__
        for name in ("fused", "foreach"):
            if name in defaults:
                settings[f"optimizer_{name}"] = bool(defaults[name])
    for name in ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "batch_size"):
        if hasattr(loader, name):
            settings[f"loader_{name}"] = getattr(loader, name)
    return {name: value for name, value in settings.items() if isinstance(value, (bool, int, float, str))}


def note_training(profiler: Any, **parts: Any) -> None:
    """Adds of_training() to a profiler's settings, to be written after the first forward. Never raises: a setting is not
    worth a job."""
    with contextlib.suppress(Exception):
        profiler._note_settings(of_training(**parts))


def settings_are_wanted() -> bool:
    """Unless ``CEP_SETTINGS=0``."""
    return os.environ.get("CEP_SETTINGS", "1") not in ("0", "false", "off", "no")


def add_to_meta(meta: Optional[bytes]) -> Optional[bytes]:
    """The JSON text of an option ``meta`` with this process's settings, which do not replace the program's own."""
    try:
        facts = json.loads(meta) if meta else {}
        facts.setdefault("settings", read_settings())
        text = json.dumps(facts).encode()
    except (ValueError, AttributeError):  # libcep says what is wrong with it
        return meta
    return text if len(text) <= 65536 else meta


# ---- Options

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


@contextlib.contextmanager
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
