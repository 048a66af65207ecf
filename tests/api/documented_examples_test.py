# SPDX-License-Identifier: Apache-2.0
"""Every C and Python example of README, manual, header and examples/ compiles. Each complete program runs as written and
writes a valid rank file."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RANK_FILE = "cuda_events_rank_0.jsonl"

# The declarations that a fragment uses from the program around it.
AROUND_FRAGMENT = """
#include <cep/cep.h>
#include <stdio.h>
extern cep_profiler *profiler;
extern cep_region *data, *forward, *backward, *all_reduce;
extern void *stream, *comm_stream;
extern int64_t steps, bucket_bytes, bucket_index;
void load_batch(void);
void run_forward(void *on);
void run_backward(void *on);
void reduce_bucket(void *on);
void example(void);
void example(void) {
%s
}
"""


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def manual_literals(page: Path) -> list[str]:
    """The C code in literal displays. Displays without a semicolon are shell commands."""
    displays = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [text.replace("\\e", "\\").replace("\\-", "-") for text in displays if ";" in text]


def header_examples(header: Path) -> list[str]:
    examples = re.findall(r"@code\n(.*?)@endcode", header.read_text(encoding="utf-8"), flags=re.S)
    return [re.sub(r"^ \* ?", "", text, flags=re.M) for text in examples]


def c_examples(root: Path) -> list[tuple[str, str]]:
    sources = [("README.md", text) for text in fenced(root / "README.md", "c")]
    for page in sorted((root / "man").glob("*.[37]")):
        sources += [(page.name, text) for text in manual_literals(page)]
    sources += [("cep.h", text) for text in header_examples(root / "include/cep/cep.h")]
    return sources + [(page.name, page.read_text(encoding="utf-8")) for page in sorted((root / "examples").glob("*.c"))]


def check_rank_file(name: str, directory: Path) -> None:
    files = list(directory.rglob(RANK_FILE))
    assert files, f"{name}: no rank file"
    rows = [json.loads(line) for line in files[0].read_text(encoding="utf-8").splitlines()]
    assert any("type" not in row for row in rows), f"{name}: no span in {len(rows)} rows"


def run_program(name: str, command: list[str], environment: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(command, cwd=directory, env=environment, check=True)
        check_rank_file(name, Path(directory))


class Compiler:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.command = [*arguments.cc, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{arguments.root / 'include'}"]
        self.library = arguments.library
        if arguments.sanitize != "none":
            self.command.append(f"-fsanitize={arguments.sanitize}")

    def check_fragment(self, text: str) -> None:
        source = AROUND_FRAGMENT % text
        subprocess.run([*self.command, "-fsyntax-only", "-xc", "-"], input=source, text=True, check=True)

    def build(self, text: str, program: Path) -> None:
        command = [*self.command, "-xc", "-", "-xnone", str(self.library), "-lm", "-o", str(program)]
        subprocess.run([*command, f"-Wl,-rpath,{self.library.parent}"], input=text, text=True, check=True)


def check_c(arguments: argparse.Namespace) -> int:
    compiler = Compiler(arguments)
    environment = os.environ | {"CEP_ENABLE": "1", "CEP_BACKEND": "host"}
    examples = c_examples(arguments.root)
    with tempfile.TemporaryDirectory() as directory:
        for name, text in examples:
            print(f"{name}: {'program' if 'int main' in text else 'fragment'}", flush=True)
            if "int main" not in text:
                compiler.check_fragment(text)
                continue
            program = Path(directory) / "example"
            compiler.build(text, program)
            run_program(name, [str(program)], environment)
    return len(examples)


def check_python(arguments: argparse.Namespace) -> int:
    environment = os.environ | {
        "PYTHONPATH": str(arguments.root / "bindings/python"),
        "CEP_LIBRARY": str(arguments.library),
    }
    examples = fenced(arguments.root / "README.md", "python")
    for text in examples:
        print("README.md: Python program", flush=True)
        run_program("README.md", [sys.executable, "-c", text], environment)
    return len(examples)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--library", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--sanitize", default="none")
    parser.add_argument("cc", nargs="+")
    arguments = parser.parse_args()
    try:
        count = check_c(arguments)
        # An interpreter without a sanitizer cannot load a library that has one.
        if arguments.sanitize == "none":
            count += check_python(arguments)
    except (subprocess.CalledProcessError, AssertionError, ValueError) as error:
        print(error)
        return 1
    print(f"{count} examples")
    return 0


if __name__ == "__main__":
    sys.exit(main())
