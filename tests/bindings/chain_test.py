# SPDX-License-Identifier: Apache-2.0
"""A chain of phases on streams and on the host clock has true times in every language, on the fake driver.

    chain_test.py CONTEXT EXPECTED COMMAND...

CONTEXT is the library that gives the thread that loads it a CUDA context; the driver is beside it. EXPECTED is JSON: the
spans by name, as [count, clock]. The command gets CONTEXT and the directory of its rank file as its last arguments.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    context, expected, *command = sys.argv[1:]
    folders = f"{Path(context).parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, context, folder], env=os.environ | {"LD_LIBRARY_PATH": folders}, check=True)
        text = (Path(folder) / "cuda_events_rank_0.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    spans = collections.Counter((row["name"], row["clock"]) for row in rows if "type" not in row)
    wanted = collections.Counter({(name, clock): count for name, (count, clock) in json.loads(expected).items()})
    unfinished = [row["name"] for row in rows if row.get("type") == "open"]
    print(f"spans: {dict(spans)}, open: {unfinished}")
    return 0 if spans == wanted and not unfinished else 1


if __name__ == "__main__":
    sys.exit(main())
