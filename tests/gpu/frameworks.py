# SPDX-License-Identifier: Apache-2.0
"""The examples of training frameworks on real GPUs: run under torchrun, their rows checked, their summaries shown.

    python3 tests/gpu/frameworks.py [--nproc 2] [--only lightning]

cep must be importable (an installed wheel, or PYTHONPATH and CEP_LIBRARY). Ends with a table of PASS, FAIL and SKIP (no
such framework here); its status is 1 if one failed.
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
EXAMPLES = TESTS.parent / "examples"
sys.path.insert(0, str(TESTS / "python"))

from framework_rows import FRAMEWORKS, problems_of  # noqa: E402  # from the folder above

RUN_TIMEOUT_S = 90


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--record-every-n-steps", type=int, default=3)
    parser.add_argument("--only", choices=FRAMEWORKS, action="append")
    parser.add_argument("--output-dir", help="keeps the files there")
    return parser.parse_args()


def version_of(framework):
    try:
        return importlib.metadata.version(framework)
    except importlib.metadata.PackageNotFoundError:
        return None


def expected_clock(ranks):
    import torch

    return "gpu" if torch.cuda.device_count() >= ranks else "host"


def run(*command):
    result = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_TIMEOUT_S,
        env={**os.environ, "OMP_NUM_THREADS": "4", "TOKENIZERS_PARALLELISM": "false"},
    )
    return result.returncode, result.stdout


def problems_of_run(framework, output_dir, options):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", options.nproc]
    words = ["--steps", options.steps, "--record-every-n-steps", options.record_every_n_steps]
    example = EXAMPLES / f"torch_{framework}.py"
    status, out = run(sys.executable, *launcher, example, *words, "--output-dir", output_dir)
    if status != 0:
        return [f"status {status}", *out.splitlines()[-40:]]
    print(out.strip().splitlines()[-1])
    for command in ("summarize", "check"):
        status, out = run(sys.executable, "-m", "cep", command, output_dir)
        print(out.rstrip())
        if status != 0:
            return [f"cep {command}: status {status}"]
    recorded = range(0, options.steps, options.record_every_n_steps)
    return problems_of(output_dir, ranks=options.nproc, steps=recorded, clock=expected_clock(options.nproc))


def result_of(framework, folder, options):
    """PASS, FAIL or SKIP, and a remark."""
    version = version_of(framework)
    if version is None:
        return "SKIP", "not installed"
    print(f"\n== {framework} {version}, {options.nproc} ranks", flush=True)
    output_dir = folder / framework
    output_dir.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    try:
        problems = problems_of_run(framework, output_dir, options)
    except (subprocess.TimeoutExpired, OSError, LookupError) as error:
        problems = [repr(error)]
    for problem in problems:
        print(f"  ! {problem}")
    return ("FAIL" if problems else "PASS"), f"{version}, {time.monotonic() - begin:.0f} s"


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(options.output_dir or folder)
        results = {name: result_of(name, folder, options) for name in options.only or FRAMEWORKS}
    print()
    for name, (result, remark) in results.items():
        print(f"{result}  {name} ({remark})")
    return int(any(result == "FAIL" for result, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
