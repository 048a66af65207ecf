# SPDX-License-Identifier: Apache-2.0
"""The speed of `cep` in reading rank files, compared with other programs on the same bytes and the same question.

    python3 tests/bench/reading.py --cep build/tools/cep
    python3 tests/bench/reading.py --cep build/tools/cep --rows 1000000 --repeats 3      # a quick look

Makes the rank files of a simulated job (`cep simulate`) in --data, and keeps them for later runs. Reads them once, so that
they are in the page cache. Then the programs run in turns, --repeats times each; the table has medians and extremes. Each
program computes, by phase: the number of spans, their mean, median, 90th and 99th percentile and maximum. `cep summarize`
also computes ranks, skew, steps, runs, loss and damage. `sort -m` gets the same rows in order, with the key in front of
each, which is the minimum work of a merge.

jq and Python's json read only the first --sample-mb of one file, because they would need minutes for all of the data.
Compare their time per byte. Speeds count the bytes of the files, or of their uncompressed contents. Missing programs are
left out.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JQ = (
    "[inputs | select(.type == null) | [.name, .duration_ms]] | group_by(.[0])[] | .[0][0] as $name | map(.[1]) | sort"
    " | length as $n | [$name, $n, add / $n, .[$n * 0.5 | floor], .[$n * 0.9 | floor], .[$n * 0.99 | floor], .[-1]]"
)

PYTHON = """
import json, sys
phases = {}
for path in sys.argv[1:]:
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        if "type" not in row:
            phases.setdefault(row["name"], []).append(row["duration_ms"])
for name, values in phases.items():
    values.sort()
    n = len(values)
    print(name, n, sum(values) / n, values[n // 2], values[n * 9 // 10], values[n * 99 // 100], values[-1])
"""

SQL = """
SELECT name, count(*), avg(duration_ms), quantile_cont(duration_ms, 0.5), quantile_cont(duration_ms, 0.9),
       quantile_cont(duration_ms, 0.99), max(duration_ms)
FROM read_json('{files}', format = 'newline_delimited',
               columns = {{name: 'VARCHAR', duration_ms: 'DOUBLE', type: 'VARCHAR'}})
WHERE type IS NULL GROUP BY name ORDER BY name
"""

DUCKDB = """
const duckdb = require(process.argv[2]);
(async () => {
  const instance = await duckdb.DuckDBInstance.create(':memory:', { threads: process.argv[3] });
  const connection = await instance.connect();
  const result = await connection.runAndReadAll(process.argv[4]);
  process.stdout.write(JSON.stringify(result.getRowsJson()) + '\\n');
})();
"""

SUMMARIZE, DUCKDB_NAME = "cep summarize", "DuckDB"
MERGE, SORT = "cep merge, 2 threads", "sort -m, of sorted files"
JQ_NAME, PYTHON_NAME = "jq, of a sample", "Python's json, of a sample"


def on_threads(name, threads):
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def ratios(threads):
    """Lines to compare with each other."""
    one = on_threads(SUMMARIZE, 1)
    yield one, "wc -l"
    yield MERGE, SORT
    for count in threads:
        yield on_threads(DUCKDB_NAME, count), on_threads(SUMMARIZE, count)
    yield JQ_NAME, one
    yield PYTHON_NAME, one
    for count in threads:
        if count > 1:
            yield one, on_threads(SUMMARIZE, count)



def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cep", default="build/tools/cep")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts of summarize and DuckDB")
    parser.add_argument("--sample-mb", type=float, default=16.0)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "cep_bench_reading")
    parser.add_argument("--duckdb", help="folder of DuckDB's npm package (@duckdb/node-api)", default=find_duckdb())
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="measure only lines with one of these words")
    return parser.parse_args()


def find_duckdb():
    for folder in sorted(Path(__file__).resolve().parent.parent.glob("**/node_modules/@duckdb/node-api")):
        return str(folder)
    return None


class Data:
    """The rank files of one simulated job."""

    def __init__(self, options, name, ranks, rows):
        self.name = name
        self.folder = options.data / f"{name}_{rows}"
        if not (self.folder / "truth.json").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.make(options.cep, ranks, rows)
        self.files = sorted(self.folder.glob("cuda_events_rank_*.jsonl"))
        self.bytes = sum(path.stat().st_size for path in self.files)
        self.rows = rows

    def make(self, cep, ranks, rows):
        simulate = [cep, "simulate", "--ranks", str(ranks), "--record-every", "1", "--seed", "1"]

        def rows_of(steps):
            probe = self.folder.with_name(self.folder.name + "_probe")
            shutil.rmtree(probe, ignore_errors=True)
            subprocess.run([*simulate, "--steps", str(steps), "-o", str(probe)], check=True, stdout=subprocess.DEVNULL)
            count = sum(1 for path in probe.glob("*.jsonl") for _ in open(path, "rb"))
            shutil.rmtree(probe)
            return count

        # Files begin and end with rows that do not belong to a step.
        few, more = rows_of(2), rows_of(4)
        of_step = (more - few) / 2
        steps = max(1, round((rows - few) / of_step + 2))
        subprocess.run([*simulate, "--steps", str(steps), "-o", str(self.folder)], check=True, stdout=subprocess.DEVNULL)

    @property
    def pattern(self):
        return str(self.folder / "cuda_events_rank_*.jsonl")


class Measured:
    """One program on one data set: seconds, CPU seconds and peak memory of each repeat.

    If a program takes less memory than this script, Linux reports the memory of the script, which forked it.
    """

    def __init__(self, name, command, size):
        self.name, self.command, self.size = name, command, size
        self.seconds, self.cpu_seconds, self.peak_mib = [], [], []

    def run(self, output):
        start = time.perf_counter()
        process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds.append(time.perf_counter() - start)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{self.name}: exit status {process.returncode}: {' '.join(self.command)[:200]}")
        self.cpu_seconds.append(usage.ru_utime + usage.ru_stime)
        self.peak_mib.append(usage.ru_maxrss / 1024)


def shell(command):
    return ["sh", "-c", command]


SPAN = re.compile(r'\{"name":"[^"]*","step":(\d+),"rank":(\d+),"duration_ms":[^,]*,"start_ns":(\d+),')


def split_for_sort(data, folder):
    """The spans of each file in the order of a merge, as `sort -m` needs them, with the key in front."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for path in data.files:
        sorted_path = folder / path.name
        paths.append(str(sorted_path))
        if sorted_path.exists():
            continue
        with open(path, encoding="utf-8") as file, open(sorted_path, "w", encoding="utf-8") as out:
            for line in file:
                if span := SPAN.match(line):
                    step, rank, start_ns = span.groups()
                    out.write(f"{step:0>12} {start_ns:0>20} {rank:0>6} {line}")
        subprocess.run(["sort", "-o", str(sorted_path), str(sorted_path)], check=True, env={**os.environ, "LC_ALL": "C"})
    return paths


def sample_of(path, size, folder):
    """The first whole lines of a file."""
    sample = folder / f"sample_{size}_{path.name}"
    with open(path, "rb") as file, open(sample, "wb") as out:
        while out.tell() < size and (line := file.readline()):
            out.write(line)
    return sample


def summarize(options, path, threads, *more):
    """Without the verdict, which the other programs do not compute."""
    return [options.cep, "summarize", "--threads", str(threads), "--json", *(more or ["--no-verdict"]), str(path)]


def merge(options, path):
    return shell(f"'{options.cep}' merge --threads 2 '{path}' >/dev/null")


def programs(options, few, many, work):
    """All measurements, in the order of the table."""
    one_file = few.files[0]
    sample = sample_of(one_file, int(options.sample_mb * 1e6), work)
    sample_bytes = sample.stat().st_size
    files = " ".join(f"'{path}'" for path in few.files)
    measured = [
        Measured("cat >/dev/null", shell(f"cat {files} >/dev/null"), few.bytes),
        Measured("wc -l", ["wc", "-l", *map(str, few.files)], few.bytes),
        *(Measured(on_threads(SUMMARIZE, n), summarize(options, few.folder, n), few.bytes) for n in options.threads),
        *(
            Measured(on_threads(f"{SUMMARIZE} with the verdict", n), summarize(options, few.folder, n, "--by=phase"), few.bytes)
            for n in options.threads
        ),
        Measured("cep summarize, one file, 2 threads", summarize(options, one_file, 2), one_file.stat().st_size),
        Measured("cep check, 2 threads", [options.cep, "check", "--threads", "2", str(few.folder)], few.bytes),
        Measured(MERGE, merge(options, few.folder), few.bytes),
    ]
    if shutil.which("sort"):
        paths = split_for_sort(few, work / f"sorted_{few.rows}")
        measured.append(Measured(SORT, ["env", "LC_ALL=C", "sort", "-m", *paths], few.bytes))
    for packer, ending in (("gzip", "gz"), ("zstd", "zst")):
        folder = work / f"{ending}_{few.rows}"
        if shutil.which(packer) or folder.exists():
            pack(packer, ending, few, folder)
            measured.append(Measured(f"cep summarize, .{ending}, 2 threads", summarize(options, folder, 2), few.bytes))
    if shutil.which("jq"):
        measured.append(Measured(JQ_NAME, ["jq", "-n", JQ, str(sample)], sample_bytes))
    measured.append(Measured(PYTHON_NAME, [sys.executable, "-c", PYTHON, str(sample)], sample_bytes))
    if options.duckdb and shutil.which("node"):
        script = work / "duckdb.js"
        script.write_text(DUCKDB)
        for threads in options.threads:
            command = ["node", str(script), options.duckdb, str(threads), SQL.format(files=few.pattern)]
            measured.append(Measured(on_threads(DUCKDB_NAME, threads), command, few.bytes))
    if many is not None:
        files = f"{len(many.files):,} files, 2 threads"
        measured.append(Measured(f"cep summarize, {files}", summarize(options, many.folder, 2), many.bytes))
        measured.append(Measured(f"cep merge, {files}", merge(options, many.folder), many.bytes))
    return [m for m in measured if not options.only or any(word in m.name for word in options.only)]


def pack(packer, ending, data, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in data.files:
        packed = folder / f"{path.name}.{ending}"
        if not packed.exists():
            with open(packed, "wb") as out:
                subprocess.run([packer, "-c", "-q", str(path)], check=True, stdout=out)


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} | {min(values):.{digits}f}–{max(values):.{digits}f}"


def print_table(measured):
    print("\n| | s, median | least–most | GB/s | CPU s/GB | peak MiB |\n|---|---|---|---|---|---|")
    for m in measured:
        gb = m.size / 1e9
        print(f"| {m.name} | {spread(m.seconds, 3)} | {gb / statistics.median(m.seconds):.3f} "
              f"| {statistics.median(m.cpu_seconds) / gb:.2f} | {max(m.peak_mib):.0f} |")  # fmt: skip


def print_ratios(measured, threads):
    """Ratios of the time per byte, from the same rounds."""
    by_name = {m.name: m for m in measured}
    print("\n| time a byte | ratio, median | least–most |\n|---|---|---|")
    for name, other in ratios(threads):
        if name in by_name and other in by_name:
            pair = by_name[name], by_name[other]
            bytes_ratio = pair[1].size / pair[0].size
            values = [bytes_ratio * a / b for a, b in zip(pair[0].seconds, pair[1].seconds, strict=True)]
            print(f"| {name} / {other} | {spread(values, 2)} |")


def warm(path):
    """Reads a file into the page cache. Returns its number of lines."""
    lines = 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(1 << 20):
            lines += block.count(b"\n")
    return lines


def main():
    options = arguments()
    few = Data(options, "8_files", 8, options.rows)
    many = None if options.only and not any("files" in word for word in options.only) else Data(options, "16384_files", 16384, options.rows)
    for data in (few, many):
        if data is not None:
            rows = sum(warm(path) for path in data.files)
            print(f"{len(data.files):,} files, {data.bytes / 1e9:.3f} GB, {rows:,} rows", flush=True)
    measured = programs(options, few, many, options.data)
    with open(os.devnull, "wb") as nowhere:
        for _ in range(options.repeats):
            for m in measured:
                m.run(nowhere)
    print_table(measured)
    print_ratios(measured, options.threads)


if __name__ == "__main__":
    main()
