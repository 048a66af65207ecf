# SPDX-License-Identifier: Apache-2.0
"""A profiler that is off leaves the interpreter alone."""

import pytest

# For a callback, ctypes finds the interpreter's thread state by a thread key, often the first key of the process.
CALL_BACK = """
import ctypes
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(3, 1, 2, 5, 4)
ctypes.CDLL(None).qsort(numbers, 5, ctypes.sizeof(ctypes.c_int), compare(lambda a, b: a[0] - b[0]))
assert list(numbers) == [1, 2, 3, 4, 5]
"""


@pytest.mark.parametrize("use", [
    "prof.stats",
    "prof.flush()",
    "prof.step(0)\nwith prof.region('forward'):\n    pass",
    "prof.counter('loss', 1)\nprof.mark('checkpoint')",
    "prof.close()\nprof.stats",
], ids=["stats", "flush", "region", "counter and mark", "close"])
@pytest.mark.parametrize("way", ["enable=False", "ranks=[7]"], ids=["disabled", "unlisted"])
def test_callbacks_work_beside_a_profiler_that_is_off(scripts, files, way, use):
    scripts.run(f"prof = cep.Profiler(sys.argv[1], rank=0, world_size=8, {way})\n{use}\n{CALL_BACK}")
    assert not files.directory.exists()


def test_callbacks_work_in_threads_beside_a_profiler_that_is_off(scripts):
    callback = "\n".join("    " + line for line in CALL_BACK.strip().splitlines())
    scripts.run(f"""
import threading
prof = cep.Profiler(sys.argv[1], enable=False)
failed = []
def work():
    prof.stats
{callback}
    failed.pop()
for _ in range(4):
    failed.append(1)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
assert failed == []
""")
