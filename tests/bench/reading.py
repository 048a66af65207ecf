# SPDX-License-Identifier: Apache-2.0
"""How fast `cep` reads rank files, beside other programs on the same bytes and the same question.

    python3 tests/bench/reading.py --cep build/tools/cep
    python3 tests/bench/reading.py --cep build/tools/cep --rows 1000000 --repeats 3      # a quick look

Makes the rank files of a simulated job (`cep simulate`) in --data, which is kept for the next time, reads them once so that
they are in the page cache, and takes turns: each program --repeats times, medians. The question is, by phase: how many
spans, their mean, median, 90th and 99th percentile and maximum. What `cep summarize` says beyond that (ranks, skew, steps,
runs, loss, damage) the others are not asked for.

jq and Python's json are asked on one file of the data: all of it would take them minutes. Speeds are in bytes of the files,
compressed ones in bytes of what they hold. Programs that are not there are left out.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JQ = (
    "reduce inputs as $r ({}; if $r.type == null then .[$r.name] += [$r.duration_ms] else . end) | to_entries[] | .value |= sort"
    " | .value as $v | ($v | length) as $n | [.key, $n, ($v | add / $n), $v[$n * 0.5 | floor], $v[$n * 0.9 | floor],"
    " $v[$n * 0.99 | floor], $v[-1]]"
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cep", default="build/tools/cep")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "cep_bench_reading")
    parser.add_argument("--duckdb", help="folder of DuckDB's npm package (@duckdb/node-api)", default=find_duckdb())
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="lines with one of these words in their name")
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
        probe = self.folder.with_name(self.folder.name + "_probe")
        shutil.rmtree(probe, ignore_errors=True)
        simulate = [cep, "simulate", "--ranks", str(ranks), "--record-every", "1", "--seed", "1"]
        subprocess.run([*simulate, "--steps", "2", "-o", str(probe)], check=True, stdout=subprocess.DEVNULL)
        first = sum(1 for path in probe.glob("*.jsonl") for _ in open(path, "rb"))
        shutil.rmtree(probe)
        steps = max(1, round(rows / (first / 2)))
        subprocess.run([*simulate, "--steps", str(steps), "-o", str(self.folder)], check=True, stdout=subprocess.DEVNULL)

    @property
    def pattern(self):
        return str(self.folder / "cuda_events_rank_*.jsonl")


class Measured:
    """One program on one data set: seconds, CPU seconds and peak memory of each repeat."""

    def __init__(self, name, command, size, rows_of):
        self.name, self.command, self.size, self.rows_of = name, command, size, rows_of
        self.seconds, self.cpu_seconds, self.peak_mib = [], [], []

    def run(self, output):
        start = time.perf_counter()
        process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds.append(time.perf_counter() - start)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0,):
            sys.exit(f"{self.name}: exit status {process.returncode}: {' '.join(self.command)[:200]}")
        self.cpu_seconds.append(usage.ru_utime + usage.ru_stime)
        self.peak_mib.append(usage.ru_maxrss / 1024)


def shell(command):
    return ["sh", "-c", command]


def pinned(command):
    return ["taskset", "-c", "0", *command]


def split_for_sort(data, folder):
    """The rows of each file in the order of a merge, as `sort -m` needs them, with the key in front."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for path in data.files:
        sorted_path = folder / path.name
        paths.append(str(sorted_path))
        if sorted_path.exists():
            continue
        with open(path, encoding="utf-8") as file, open(sorted_path, "w", encoding="utf-8") as out:
            for line in file:
                row = json.loads(line)
                if "type" not in row:
                    out.write(f"{row['step']:012d} {row['start_ns']:020d} {row['rank']:06d} {line}")
    for path in paths:
        subprocess.run(["sort", "-o", path, path], check=True, env={**os.environ, "LC_ALL": "C"})
    return paths


def programs(options, few, many, work):
    """All that is measured, in the table's order."""
    cep, every = options.cep, str(few.folder)
    one_file = few.files[0]
    files = " ".join(f"'{path}'" for path in few.files)
    measured = [
        Measured("cat >/dev/null", shell(f"cat {files} >/dev/null"), few.bytes, "all"),
        Measured("wc -l", shell(f"cat {files} | wc -l"), few.bytes, "all"),
        Measured("cep summarize, 1 thread", [cep, "summarize", "--threads", "1", "--json", every], few.bytes, "all"),
        Measured("cep summarize, 2 threads", [cep, "summarize", "--threads", "2", "--json", every], few.bytes, "all"),
        Measured("cep summarize, 1 file, 2 threads", [cep, "summarize", "--threads", "2", "--json", str(one_file)],
                 one_file.stat().st_size, "one file"),
        Measured("cep check, 2 threads", [cep, "check", "--threads", "2", every], few.bytes, "all"),
        Measured("cep merge, 2 threads", shell(f"'{cep}' merge --threads 2 '{every}' >/dev/null"), few.bytes, "all"),
    ]  # fmt: skip
    if shutil.which("sort"):
        paths = " ".join(f"'{path}'" for path in split_for_sort(few, work / f"sorted_{few.rows}"))
        measured.append(Measured("sort -m, of sorted files", shell(f"LC_ALL=C sort -m {paths} >/dev/null"), few.bytes, "all"))
    for packer, ending in (("gzip", "gz"), ("zstd", "zst")):
        folder = work / f"{ending}_{few.rows}"
        if shutil.which(packer) or folder.exists():
            pack(packer, ending, few, folder)
            measured.append(Measured(f"cep summarize .{ending}, 2 threads",
                                     [cep, "summarize", "--threads", "2", "--json", str(folder)], few.bytes, "all"))  # fmt: skip
    if shutil.which("jq"):
        measured.append(Measured("jq", ["jq", "-n", JQ, str(one_file)], one_file.stat().st_size, "one file"))
    measured.append(Measured("Python's json", [sys.executable, "-c", PYTHON, str(one_file)], one_file.stat().st_size, "one file"))
    if options.duckdb and shutil.which("node"):
        script = work / "duckdb.js"
        script.write_text(DUCKDB)
        for threads in ("1", "2"):
            command = ["node", str(script), options.duckdb, threads, SQL.format(files=few.pattern)]
            measured.append(Measured(f"DuckDB, {threads} thread(s)", command, few.bytes, "all"))
    if many is not None:
        measured.append(Measured(f"cep summarize, {len(many.files):,} files, 2 threads",
                                 [cep, "summarize", "--threads", "2", "--json", str(many.folder)], many.bytes, "all"))  # fmt: skip
        measured.append(Measured(f"cep merge, {len(many.files):,} files, 2 threads",
                                 shell(f"'{cep}' merge --threads 2 '{many.folder}' >/dev/null"), many.bytes, "all"))  # fmt: skip
    return [m for m in measured if not options.only or any(word in m.name for word in options.only)]


def pack(packer, ending, data, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in data.files:
        packed = folder / f"{path.name}.{ending}"
        if not packed.exists():
            with open(packed, "wb") as out:
                subprocess.run([packer, "-c", "-q", str(path)], check=True, stdout=out)


def print_table(measured):
    floor = next((m for m in measured if m.name == "cep summarize, 2 threads"), None)
    print(f"{'':42} {'s':>8} {'q1':>8} {'q3':>8} {'GB/s':>7} {'CPU s/GB':>9} {'MiB':>7}   time a byte, of cep summarize, 2 threads")
    for m in measured:
        low, median, high = statistics.quantiles(m.seconds, n=4) if len(m.seconds) > 1 else (m.seconds[0],) * 3
        gb = m.size / 1e9
        line = f"{m.name:42} {median:8.3f} {low:8.3f} {high:8.3f} {gb / median:7.3f}"
        line += f" {statistics.median(m.cpu_seconds) / gb:9.3f} {max(m.peak_mib):7.0f}"
        if floor is not None:
            own = statistics.median(floor.seconds) / floor.size
            line += f"   {median / m.size / own:8.2f} x" + ("" if m.rows_of == "all" else f"  ({m.rows_of})")
        print(line)


def main():
    options = arguments()
    few = Data(options, "8_files", 8, options.rows)
    many = None if options.only and not any("files" in word for word in options.only) else Data(options, "16384_files", 16384, options.rows)
    print(f"{len(few.files)} files, {few.bytes / 1e9:.3f} GB, about {options.rows:,} rows", end="")
    print("" if many is None else f"; {len(many.files):,} files, {many.bytes / 1e9:.3f} GB", flush=True)
    for data in (few, many):
        for path in data.files if data is not None else ():
            path.read_bytes()
    measured = programs(options, few, many, options.data)
    with open(os.devnull, "wb") as nowhere:
        for _ in range(options.repeats):
            for m in measured:
                m.run(nowhere)
    print_table(measured)


if __name__ == "__main__":
    main()
