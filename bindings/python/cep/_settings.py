# SPDX-License-Identifier: Apache-2.0
"""Settings: what the framework and the machine were told, for the run row. Read once, when a profiler opens."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, Optional

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


def read() -> Settings:
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


def is_wanted() -> bool:
    """Unless ``CEP_SETTINGS=0``."""
    return os.environ.get("CEP_SETTINGS", "1") not in ("0", "false", "off", "no")


def add_to_meta(meta: Optional[bytes]) -> Optional[bytes]:
    """The JSON text of an option ``meta`` with this process's settings, which do not replace the program's own."""
    try:
        facts = json.loads(meta) if meta else {}
        facts.setdefault("settings", read())
        text = json.dumps(facts).encode()
    except (ValueError, AttributeError):  # libcep says what is wrong with it
        return meta
    return text if len(text) <= 65536 else meta
