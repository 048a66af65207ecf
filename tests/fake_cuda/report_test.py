#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fake driver writes a report of a program's calls, and has no device if the environment says so."""
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
code = driver.cuInit(0)
if code == 0:
    context, event = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
    driver.cuEventCreate(ctypes.byref(event), 0)
    driver.cuEventRecord(event, None)
    driver.cuEventRecord(event, None)
raise SystemExit(code)
"""


def run_program(**environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True,
                          text=True, check=False)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        process = run_program(FAKE_CUDA_REPORT=report)
        assert process.returncode == 0, process
        with open(report, encoding="utf-8") as file:
            lines = [line.split() for line in file]
    calls = {words[2]: int(words[3]) for words in lines if words[0] == "calls"}
    assert calls["cuInit"] == 1 and calls["cuEventCreate"] == 1 and calls["cuEventRecord"] == 2, calls
    assert ["live", "events", "1"] in lines and ["misuse", "0"] in lines, lines

    assert run_program(FAKE_CUDA_DEVICES="0").returncode == 100  # CUDA_ERROR_NO_DEVICE
    refused = run_program(FAKE_CUDA_FAULTS="cuEventCreate:fail")
    assert refused.returncode < 0 and "FAKE_CUDA_FAULTS does not parse" in refused.stderr, refused


main()
