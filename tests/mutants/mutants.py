#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants small defects in a copy of the source tree, one at a time, and says which of them no test notices.

    python3 tests/mutants/mutants.py                         every mutant of every list; about half an hour
    python3 tests/mutants/mutants.py library/fork            the mutants whose "list/name" contains this text
    python3 tests/mutants/mutants.py --work DIR              keep copy and build in DIR: the next run starts faster
    python3 tests/mutants/mutants.py --check                 only look whether each mutant still fits the source

A list is a file *.toml beside this script. It names the options of `meson setup` for its build, and for each file of the
source the tests (names of `meson test`) of which one has to fail, and the mutants: a name, a piece of the code that is there
exactly once, and what replaces it. A mutant that lives needs a test. A mutant whose code is gone needs a new text, and the
script refuses to run until it has one.

Exit status: 0 each mutant was noticed; 1 one lived, or could not be tried; 2 a list does not fit the source.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import tomllib
except ImportError:  # Python < 3.11
    try:
        import tomli as tomllib
    except ImportError:
        print("needs Python 3.11, or the package tomli")
        sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Refused(Exception):
    """Why nothing can be tried, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    list: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple

    @property
    def title(self):
        return f"{self.list}/{self.name}"

    def fault(self):
        """What is wrong with it; None if it fits the source."""
        if self.old == self.new:
            return "old and new are the same"
        if not self.tests:
            return "no tests"
        try:
            count = (ROOT / self.file).read_text(encoding="utf-8").count(self.old)
        except OSError as error:
            return f"{self.file}: {error.strerror}"
        return None if count == 1 else f"{self.file}: the old text is there {count} times, not once"


def read_list(path):
    """The options of a list's build, and its mutants."""
    with open(path, "rb") as file:
        content = tomllib.load(file)
    try:
        setup = content.pop("setup")
        mutants = [
            Mutant(path.stem, name, file, *texts, tests)
            for file, groups in content.items()
            for tests, group in ((tuple(group.pop("tests")), group) for group in groups)
            for name, texts in group.items()
        ]
        return setup, mutants
    except (KeyError, TypeError) as error:
        raise Refused(f"{path.name}: {error}") from error


def check(mutants):
    """Raises unless each mutant fits the source."""
    titles = [mutant.title for mutant in mutants]
    faults = [f"{title}: the name is there twice" for title in set(titles) if titles.count(title) > 1]
    faults += [f"{mutant.title}: {mutant.fault()}" for mutant in mutants if mutant.fault()]
    if faults:
        raise Refused("\n".join(sorted(faults)))


def is_source(parent, folder):
    """Whether a folder belongs to the source, and not to git or to a build."""
    return folder != "__pycache__" and not (parent == ROOT and folder.startswith((".", "build")))


def copy_source(to):
    """Copies what has changed since the last copy, so that the build compiles no more than it must."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if is_source(pathlib.Path(folder), name)]
        target = to / pathlib.Path(folder).relative_to(ROOT)
        target.mkdir(parents=True, exist_ok=True)
        for name in files:
            source, copy = pathlib.Path(folder, name), target / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                shutil.copy(source, copy)


class Build:
    """A build directory of the copy."""

    def __init__(self, source, directory, setup, jobs):
        self.source, self.directory, self.jobs = source, directory, jobs
        again = ["--reconfigure"] if (directory / "build.ninja").exists() else []
        self.run("meson", "setup", *again, directory, source, *setup)
        targets = {target["id"]: target["filename"] for target in self.introspect("targets")}
        self.targets_of = {}
        self.timeout_s_of = {}
        self.duration_s_of = {}  # on the source as it is
        for test in self.introspect("tests"):
            self.timeout_s_of[test["name"]] = test["timeout"]
            files = [os.path.relpath(file, directory) for id in test["depends"] for file in targets[id]]
            self.targets_of.setdefault(test["name"], []).extend(files)

    def introspect(self, what):
        return json.loads(self.run("meson", "introspect", f"--{what}", self.directory))

    def run(self, *command):
        done = subprocess.run(command, cwd=self.source, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def compile(self, tests):
        unknown = [test for test in tests if test not in self.targets_of]
        if unknown:
            raise Refused(f"no such test: {', '.join(unknown)}")
        targets = sorted({target for test in tests for target in self.targets_of[test]})
        self.run("ninja", "-C", self.directory, f"-j{self.jobs}", *targets)

    def multiplier(self, tests):
        """As a factor of the tests' own timeouts: far more time than they need, and not the ten minutes of one that hangs."""
        factors = [2]
        if all(test in self.duration_s_of for test in tests):
            factors = [max(60, 20 * self.duration_s_of[test]) / self.timeout_s_of[test] for test in tests]
        return max(factors)

    def failures(self, tests):
        """Runs compiled tests. Names those that failed, each with the cases that did."""
        log = self.directory / "meson-logs" / "testlog.json"
        log.unlink(missing_ok=True)
        command = ["meson", "test", "-C", self.directory, "--no-rebuild", "--num-processes", str(self.jobs)]
        command += ["--timeout-multiplier", f"{self.multiplier(tests):.3f}", *tests]
        subprocess.run(command, cwd=self.source, capture_output=True, check=False)
        if not log.exists():
            raise Refused(f"no test ran: {' '.join(map(str, command))}")
        results = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for result in results:
            duration_s = max(result["duration"], self.duration_s_of.get(name_of(result), 0))
            if result["result"] == "OK":
                self.duration_s_of[name_of(result)] = duration_s
        bad = [result for result in results if result["result"] not in ("OK", "SKIP", "INTERRUPT")]
        return [describe(result) for result in bad]


def name_of(result):
    """The test's name, without project and suite."""
    return result["name"].split(" / ")[-1].split(" - ")[-1]


def describe(result):
    """The test that failed: "ring: HoldsExactlyItsCapacity", "ring (timed out)"."""
    output = result.get("stdout", "")
    cases = re.findall(r"^not ok \d+ -? ?(\S+)|^\[  FAILED  \] ([\w./]+)(?:,| \()", output, re.M)
    name = name_of(result)
    if result["result"] == "TIMEOUT":
        return f"{name} (timed out)"
    cases = list(dict.fromkeys(tap or gtest for tap, gtest in cases))
    more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
    return f"{name}: {', '.join(cases[:3])}{more}" if cases else name


def try_mutant(build, mutant):
    """What noticed the mutant, or nothing. The copy is as it was afterwards."""
    path = build.source / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        build.compile(mutant.tests)
        return build.failures(mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")


def try_list(build, mutants):
    """Prints a line for each mutant. Returns how many of them nothing noticed."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"# {mutants[0].list}: {len(tests)} tests on the source as it is", flush=True)
    build.compile(tests)
    if failures := build.failures(tests):
        raise Refused("fails without any mutant: " + "; ".join(failures))
    lived = 0
    for mutant in mutants:
        began = time.monotonic()
        try:
            noticed = try_mutant(build, mutant)
            verdict = "died " if noticed else "LIVED"
        except Refused as error:
            noticed, verdict = [str(error)], "ERROR"
        lived += verdict != "died "
        print(f"{verdict} {mutant.title} ({time.monotonic() - began:.0f} s) {'; '.join(noticed)}", flush=True)
    return lived


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="part of the list/name of a mutant; none: all")
    parser.add_argument("--check", action="store_true", help="build nothing")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR", help="where copy and build are kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the build and of the tests")
    return parser.parse_args()


def run(arguments, work):
    lists = [read_list(path) for path in sorted(HERE.glob("*.toml"))]
    check([mutant for _, mutants in lists for mutant in mutants])
    if arguments.check:
        print(f"{sum(len(mutants) for _, mutants in lists)} mutants fit the source")
        return 0
    source = work / "source"
    copy_source(source)
    tried = lived = 0
    for setup, mutants in lists:
        chosen = [m for m in mutants if not arguments.only or any(part in m.title for part in arguments.only)]
        if not chosen:
            continue
        lived += try_list(Build(source, work / f"build-{chosen[0].list}", setup, arguments.jobs), chosen)
        tried += len(chosen)
    print(f"{tried} mutants, {lived} not noticed")
    return 1 if lived or not tried else 0


def main():
    arguments = parse_arguments()
    try:
        if arguments.work:
            return run(arguments, arguments.work.resolve())
        with tempfile.TemporaryDirectory(prefix="cep-mutants-") as work:
            return run(arguments, pathlib.Path(work))
    except Refused as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
