# SPDX-License-Identifier: Apache-2.0
"""The bar of a command that takes a while: one for all that it does, also where it reads its inputs twice."""

import os
import re
import shutil
import subprocess

import pytest
from test_command_line import run_on_terminal

FAST_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
/* A second for each millisecond, so that each look at the clock shows the bar. */
int clock_gettime(clockid_t clock, struct timespec* now) {
    static int (*real)(clockid_t, struct timespec*);
    if (!real) *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
    const int status = real(clock, now);
    if (clock == CLOCK_MONOTONIC && status == 0) {
        now->tv_sec = now->tv_sec * 1000 + now->tv_nsec / 1000000;
        now->tv_nsec = now->tv_nsec % 1000000 * 1000;
    }
    return status;
}
"""


@pytest.fixture
def fast_clock(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or os.environ.get("CEP_SANITIZED") == "1":
        pytest.skip("needs a C compiler, and a command without a sanitizer")
    (tmp_path / "fast_clock.c").write_text(FAST_CLOCK)
    library = tmp_path / "fast_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "fast_clock.c", "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("arguments", [
    ["merge", "-o", "merged.jsonl", "sim"], ["trace", "--steps", "0:1", "-o", "trace.json", "sim"], ["compare", "-o", "text", "sim", "sim"],
    ["report", "-o", "page.html", "--compare", "sim", "sim"]])
def test_one_bar_goes_from_left_to_right(cep, simulate, fast_clock, arguments):
    simulate("sim", "--ranks", 4, "--steps", 2000, "--record-every", 1)
    text = run_on_terminal(cep, [*arguments, "-j", "1"], TERM="xterm", LD_PRELOAD=fast_clock).decode()
    bars = [(len(full), int(percent)) for full, percent in re.findall(r"\r\[(=*) *\] +(\d+) %", text)]
    assert len(bars) > 5 and bars == sorted(bars), bars
    assert bars[0][1] < 25 and bars[-1][1] > 80, bars
    assert "\n" not in text[text.index("["):text.rindex("] ")], "in one line"
