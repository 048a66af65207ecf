# SPDX-License-Identifier: Apache-2.0
"""The same job in C and in another language writes the same rows, except for times and facts of the process.

    same_rows_test.py C_PROGRAM LANGUAGE COMMAND...

Each program gets the directory of its rank file as its last argument.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RANK_FILE = "cuda_events_rank_3.jsonl"
OF_THE_PROCESS = {
    "clock_error_ns",
    "duration_ms",
    "host_ms",
    "pid",
    "run_id",
    "self_ms",
    "start_ns",
    "start_unix_ns",
    "trainer_ms",
}
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
LAUNCHER_PREFIXES = ("SLURM_", "OMPI_", "PMI_", "MPI_", "TORCHELASTIC_", "CEP_")
KEPT = {"CEP_LIBRARY", "CEP_LIB_DIR"}
STEPS = 3
SPANS_OF_A_STEP = ["load", "forward", "backward", "sync", "training_step"]


def clean_environment():
    configured = [name for name in os.environ if name in LAUNCHER or name.startswith(LAUNCHER_PREFIXES)]
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name not in configured}
    return {**kept, "CEP_SETTINGS": "0"}  # what Python says of itself, the others do not


def run_job(command, directory):
    """The rows of a job. Keeps only the last stats row, because their number depends on the writer's pace."""
    subprocess.run([*command, str(directory)], env=clean_environment(), check=True)
    rows = [json.loads(line) for line in (directory / RANK_FILE).read_text(encoding="utf-8").splitlines()]
    stats = [row for row in rows if row.get("type") == "stats"]
    return [row for row in rows if row.get("type") != "stats"] + stats[-1:]


def check_whole(rows):
    """Checks the rows of the job in C, so that two files that lack the same rows do not pass as equal."""
    spans = [row["name"] for row in rows if "type" not in row]
    assert spans == SPANS_OF_A_STEP * STEPS + ["save"], spans
    others = [row["type"] for row in rows if "type" in row]
    assert others == ["run"] + ["counter"] * STEPS + ["mark", "stats"], others
    assert rows[-1]["written"] == len(rows) - 2, rows[-1]


def differences(expected, found):
    for number, (mine, other) in enumerate(zip(expected, found), start=1):
        for key in sorted(mine.keys() | other.keys()):
            if (key in mine) != (key in other):
                yield f"row {number}, {key}: {mine.get(key, 'not there')!r}, {other.get(key, 'not there')!r}"
            elif key not in OF_THE_PROCESS and mine[key] != other[key]:
                yield f"row {number}, {key}: {mine[key]!r}, {other[key]!r}"
    if len(expected) != len(found):
        yield f"{len(expected)} rows, {len(found)} rows"


def main():
    c_program, language, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        expected = run_job([c_program], Path(folder) / "c")
        check_whole(expected)
        found = run_job(command, Path(folder) / "other")
    problems = list(differences(expected, found))
    fields = sum(len(row.keys() - OF_THE_PROCESS) for row in expected)
    print("\n".join(problems) or f"C and {language}: {len(expected)} rows, {fields} fields the same")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
