#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what two builds of the command write for programs over damaged inputs: bytes of small rank files are changed
at random, with a seed. Over the inputs of the test suites, the tests themselves do so (both_builds.py).

    CEP_OLD=old/cep CEP_NEW=build/tools/cep python3 tests/cli/same_outputs.py 2000
"""
import collections
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "engine"))
from conftest import ROW_READERS

OLD, NEW = os.environ.get("CEP_OLD", ""), os.environ.get("CEP_NEW", "")


def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.choice(b'{}[]",:\\0123456789eE+-.ntf \n\x00\x1b\xff')
        elif kind == 1:
            del data[at:at + rng.choice((1, 3, 40))]
        elif kind == 2:
            data[at:at] = data[at:at + rng.choice((1, 8, 60))]
        else:
            data[at:at] = rng.choice((b"1e300", b"-1", b"null", b"\n", b'"', b"9223372036854775807", b"{", b"\\u0000"))
    return bytes(data)


def small_files(folder):
    subprocess.run([NEW, "simulate", "-o", str(folder), "--ranks", "4", "--steps", "6", "--seed", "7"], check=True,
                   capture_output=True)
    return [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))]


COMMANDS = (*([command] for command in ROW_READERS), ["check", "--json"], ["summarize", "--json", "--no-verdict"],
            ["summarize", "--csv", "--by", "rank"], ["comm", "--json"])


def compare_damaged(count):
    rng = random.Random(1)
    results, examples = collections.Counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        originals = small_files(folder / "job")
        work = folder / "work"
        work.mkdir()
        for number in range(count):
            path = work / "cuda_events_rank_0.jsonl"
            data = damage(rng, rng.choice(originals))
            path.write_bytes(data)
            for command in COMMANDS:
                old, new = (subprocess.run([cep, *command, str(path)], capture_output=True) for cep in (OLD, NEW))
                result = "same" if old.stdout == new.stdout else "output differs"
                if result == "same" and old.returncode != new.returncode:
                    result = f"status {old.returncode} -> {new.returncode}"
                results[" ".join(command), result] += 1
                if result != "same" and (command[0], result) not in examples:
                    examples[command[0], result] = number
                    kept = os.environ.get("CEP_KEEP")
                    if kept:
                        pathlib.Path(kept, f"{command[0]}-{number}.jsonl").write_bytes(data)
    for (command, result), times in sorted(results.items()):
        print(f"{command:<32} {result:<28} {times:>6}")
    return 0 if all(result == "same" for _, result in results) else 1


if __name__ == "__main__":
    sys.exit(compare_damaged(int(sys.argv[1])))
