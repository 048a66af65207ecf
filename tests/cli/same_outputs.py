#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what two builds of the command write for programs: JSON, CSV and files.

Over all inputs of the test suites: this program stands in for the command, runs the new build for the test, and the
old one beside it on the same input.

    CEP_OLD=old/cep CEP_NEW=build/tools/cep CEP_LOG=differences.jsonl CEP_COMMAND=tests/cli/same_outputs.py \\
        python3 -m pytest -q tests/cli
    python3 tests/cli/same_outputs.py --report differences.jsonl

Over damaged inputs: bytes of small rank files are changed at random, with a seed.

    CEP_OLD=old/cep CEP_NEW=build/tools/cep python3 tests/cli/same_outputs.py --damaged 2000

Texts for people in JSON (headlines, reasons, messages) may differ. Keys that CEP_ADDED_KEYS names (separated by commas)
are left out before outputs are compared.
"""
import collections
import fcntl
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

OLD, NEW = os.environ.get("CEP_OLD", ""), os.environ.get("CEP_NEW", "")
ADDED_KEYS = [key for key in os.environ.get("CEP_ADDED_KEYS", "").split(",") if key]
TEXT_KEYS = ("headline", "evidence", "next", "reason", "refused", "message", "messages", "notes", "why")
OUTPUT_OPTIONS = ("-o", "--output")
TIMEOUT_S = 120


def is_for_programs(arguments):
    command = arguments[0] if arguments else ""
    reads = command in ("summarize", "check", "comm", "compare", "kernels")
    if "--help" in arguments:
        return False
    return command in ("merge", "simulate") or (reads and ("--json" in arguments or "--csv" in arguments))


def without(value, keys):
    if isinstance(value, dict):
        return {key: without(inner, keys) for key, inner in value.items() if key not in keys}
    return [without(inner, keys) for inner in value] if isinstance(value, list) else value


def canonical(output):
    """JSON without texts for people and added keys; numbers and the order of keys as they were written."""
    try:
        value = json.loads(output, parse_float=str, parse_int=str)
    except ValueError:
        return output
    return json.dumps(without(value, {*TEXT_KEYS, *ADDED_KEYS})) if isinstance(value, dict) else output


def same(old, new):
    return old == new or canonical(old) == canonical(new)


def redirect_outputs(arguments, folder):
    """The arguments with every output moved into `folder`, and where each was and is."""
    moved, result = [], []
    for argument in arguments:
        if result and result[-1] in OUTPUT_OPTIONS and argument != "-":
            target = pathlib.Path(folder) / pathlib.Path(argument).name
            moved.append((pathlib.Path(argument), target))
            argument = str(target)
        result.append(argument)
    return result, moved


def files_of(path):
    if path.is_file():
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(path.rglob("*")) if file.is_file()}


def log(arguments, what):
    with open(os.environ["CEP_LOG"], "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps({"test": os.environ.get("PYTEST_CURRENT_TEST", ""), "command": arguments[:1], "result": what,
                               "arguments": arguments}) + "\n")


def stand_in(arguments):
    """Runs both builds; the caller sees what the new one does."""
    if not is_for_programs(arguments):
        os.execv(NEW, [NEW, *arguments])
    takes_input = "-" in arguments
    data = sys.stdin.buffer.read() if takes_input else None
    stdin = {"input": data} if takes_input else {"stdin": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
        old_arguments, moved = redirect_outputs(arguments, folder)
        try:
            old = subprocess.run([OLD, *old_arguments], capture_output=True, timeout=TIMEOUT_S, **stdin)
        except subprocess.TimeoutExpired:
            old = None
        new = subprocess.run([NEW, *arguments], capture_output=True, **stdin)
        if old is None:
            log(arguments, "old build took too long")
        elif not same(old.stdout, new.stdout):
            log(arguments, "output differs")
        elif any(before.exists() and after.exists() and files_of(before) != files_of(after) for before, after in moved):
            log(arguments, "files differ")
        elif old.returncode != new.returncode:
            log(arguments, f"status {old.returncode} -> {new.returncode}")
        elif old.stdout != new.stdout:
            log(arguments, "same but for texts and added keys")
        else:
            log(arguments, "same")
    sys.stdout.buffer.write(new.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(new.stderr)
    sys.exit(new.returncode if new.returncode >= 0 else 128 - new.returncode)


def report(path):
    counts, examples = collections.Counter(), {}
    for line in open(path):
        entry = json.loads(line)
        key = (" ".join(entry["command"]), entry["result"])
        counts[key] += 1
        examples.setdefault(key, entry)
    for key, count in sorted(counts.items()):
        print(f"{key[0]:<10} {key[1]:<28} {count:>6}")
        if key[1] != "same":
            print("    for example:", examples[key]["test"], " ".join(examples[key]["arguments"]))
    return 0 if all(key[1] == "same" for key in counts) else 1


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


COMMANDS = (["check", "--json"], ["summarize", "--json", "--no-verdict"], ["summarize", "--csv", "--by", "rank"], ["merge"],
            ["comm", "--json"])


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
                result = "same" if same(old.stdout, new.stdout) else "output differs"
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
    if sys.argv[1:2] == ["--report"]:
        sys.exit(report(sys.argv[2]))
    if sys.argv[1:2] == ["--damaged"]:
        sys.exit(compare_damaged(int(sys.argv[2])))
    stand_in(sys.argv[1:])
