# SPDX-License-Identifier: Apache-2.0
"""Words that nothing knows, help texts, and completion in the shells themselves."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import COMMANDS, READERS, inputs_of, options_of, readers_with


TRACES = pathlib.Path(__file__).resolve().parents[1] / "data" / "traces"


# Words.

@pytest.mark.parametrize("arguments, says", [
    (["summarise", "x"], "cep: there is no command 'summarise'; did you mean 'summarize'?"),
    (["mrege"], "cep: there is no command 'mrege'; did you mean 'merge'?"),
    (["qqqqqq"], "cep: there is no command 'qqqqqq'\n"),
    (["summarize", "--jsn", "x"], "cep summarize: there is no option '--jsn'; did you mean '--json'?"),
    (["summarize", "--mark", "x"], "cep summarize: there is no option '--mark'; did you mean '--markdown'?"),
    (["merge", "--outptu=x.jsonl", "x"], "cep merge: there is no option '--outptu'; did you mean '--output'?"),
    (["merge", "-q", "x"], "cep merge: there is no option '-q'\n"),
    (["simulate", "--host-nois", "0.1", "-o", "x"], "cep simulate: there is no option '--host-nois'\n"),
    (["--nonsense"], "cep: there is no option '--nonsense'\n"),
    (["compare", "a", "b", "c"], "cep compare: unexpected argument 'c'\n"),
])
def test_unknown_words_are_named_and_corrected(cep, arguments, says):
    done = cep(*arguments, status=2)
    text = done.stderr.decode()
    assert text.startswith(says)
    assert re.search(r"Try 'cep( \w+)? --help'\.\n$", text)


@pytest.mark.parametrize("arguments", [
    ["summarize", "--limit", "-1"], ["summarize", "--max-samples", "-5"], ["summarize", "--threads", "-1"],
    ["comm", "--limit", "-1"], ["compare", "--block", "-2"], ["merge", "--memory-mib", "-1"],
    ["simulate", "-o", "x", "--threads", "-1"], ["simulate", "-o", "x", "--steps", "-1"],
])
def test_negative_numbers_are_refused_where_none_make_sense(cep, four_ranks, arguments):
    more = [] if arguments[0] == "simulate" else ["job", "job"][:2 if arguments[0] == "compare" else 1]
    done = cep(*arguments, *more, status=2)
    assert arguments[-2].encode() in done.stderr and b"-" in done.stderr and done.stdout == b""


# Help.

@pytest.mark.parametrize("value", ["abc", "0", "-3", "nan", "inf", "1e15x"])
@pytest.mark.parametrize("command, option", [
    *((command, "--peak-flops") for command in readers_with("--peak-flops")), ("comm", "--link-gbps"), ("comm", "--link-gb-per-s")])
def test_what_is_no_number_above_0_is_refused_by_name(cep, command, option, value):
    text = cep(command, f"{option}={value}", "x", status=2).stderr.decode()
    assert text.splitlines()[0] == f"cep {command}: {option}: '{value}' is no number above 0"


@pytest.mark.parametrize("arguments, says", [
    (["summarize", "--color", "sometimes", "x"], "cep summarize: --color: 'sometimes' is not one of auto, never, always"),
    (["summarize", "--threads", "0", "x"], "cep summarize: --threads: '0' is not a whole number from 1 to 1024"),
    (["merge", "--memory-mib", "1.5", "x"], "cep merge: --memory-mib: '1.5' is not a whole number from 1 to 1048576"),
    (["completion", "tcsh"], "cep completion: SHELL: 'tcsh' is not one of bash, zsh, fish"),
    (["report", "x", "-o"], "cep report: --output: its value is missing"),
    (["simulate", "-o", "sim", "--steps", "5", "--steps", "6"], "cep simulate: --steps: given more than once"),
    (["summarize", "--steps", "a:b", "x"], "cep summarize: --steps: 'a' is not a whole number"),
    (["summarize", "--limit", "many", "x"], "cep summarize: --limit: 'many' is not a whole number"),
    (["summarize", "--max-samples", "1.5", "x"], "cep summarize: --max-samples: '1.5' is not a whole number"),
    (["summarize", "--attempt", "first", "x"], "cep summarize: --attempt: 'first' is not last, all or a whole number"),
    (["comm", "--world", "0", "x"], "cep comm: --world: '0' is not a number above 0 such as 8, 1M or 2GiB"),
    (["summarize", "--ranks", "5-2", "x"], "cep summarize: --ranks: '5-2' ends before it begins"),
    (["summarize", "--fail-on", "stragler", "x"],
     "cep summarize: --fail-on: 'stragler' is not one of straggler, imbalance, change, abstained and bound:NAME"),
    (["compare", "--threshold", "2x", "a", "b"], "cep compare: --threshold: '2x' is not a percentage such as 2%"),
    (["comm", "--predict", "3q", "x"], "cep comm: --predict: '3q' is not a number above 0 such as 8, 1M or 2GiB"),
])
def test_a_wrong_value_is_named_with_its_option_and_what_is_right(cep, tmp_path, arguments, says):
    for name in ("x", "a", "b"):
        (tmp_path / name).touch()
    assert cep(*arguments, status=2).stderr.decode().splitlines()[0] == says


def test_the_help_of_all_fits_on_a_terminal(cep):
    assert max(map(len, cep("--help", env={"COLUMNS": "80"}).stdout.decode().splitlines())) <= 80


def test_no_arguments_print_the_help(cep):
    assert cep().stdout == cep("--help").stdout == cep("help").stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns, most", [("60", 60), ("400", 100), ("nonsense", 80), ("", 80)])
def test_help_is_wrapped(cep, command, columns, most):
    text = cep(command, "--help", env={"COLUMNS": columns}).stdout.decode()
    before_examples = text.split("Examples:")[0]
    assert max(map(len, before_examples.splitlines())) <= most
    assert max(map(len, text.splitlines())) <= max(most, 80), "examples are for any terminal"
    if command != "completion":  # whose help has no long lines
        assert max(map(len, before_examples.splitlines())) > most - 20


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_no_types_of_the_parser(cep, command):
    text = cep(command, "--help").stdout.decode()
    assert not re.search(r"\b(TEXT|UINT|INT|FLOAT|REQUIRED|SUBCOMMAND)\b|:\{|\.\.\. \.\.\.", text)
    assert text.startswith(text.split("\n\nUsage: ")[0]) and f"\nUsage: cep {command} [options]" in text


# Completion.

@pytest.fixture(scope="module")
def script(tmp_path_factory):
    @functools.cache
    def write(shell):
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is missing")
        path = tmp_path_factory.mktemp("completion") / f"cep.{shell}"
        path.write_bytes(subprocess.run([os.environ["CEP_COMMAND"], "completion", shell], capture_output=True, check=True).stdout)
        return path
    return write


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_valid(script, shell):
    subprocess.run([shell, "-n", script(shell)], check=True)


def complete_in(shell, query, path, words):
    """What a shell offers for the last of the words, where `query` runs its completion. The words follow the script."""
    folder = os.path.dirname(os.environ["CEP_COMMAND"])
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(path.parent)}
    done = subprocess.run([*shell, query, path, *words], capture_output=True, text=True, check=True, cwd=path.parent,
                          env=environment)
    assert done.stderr == ""
    return {line.split("\t")[0] for line in done.stdout.splitlines() if line}


def complete_in_bash(path, words):
    query = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cep; printf "%s\\n" "${COMPREPLY[@]}"'
    return complete_in(["bash", "-c"], query, path, words)


def complete_in_fish(path, words):
    query = 'source $argv[1]; complete -C "$argv[2..-1]"'
    return complete_in(["fish", "--no-config", "-c"], query, path, words)


def complete_in_zsh(path, words):
    """zsh completes only at a terminal, so that its functions that show what there is print it instead."""
    query = r"""
        compdef() { }
        _describe() { local word; for word in "${(@P)2}"; do print -r -- ${${word//\\:/%}%%:*}; done | tr % : }
        _files() { }
        source $0
        words=("$@") CURRENT=$#
        _cep"""
    return complete_in(["zsh", "-f", "-c"], query, path, words)


COMPLETE = {"bash": complete_in_bash, "fish": complete_in_fish, "zsh": complete_in_zsh}


@pytest.mark.parametrize("shell", COMPLETE)
@pytest.mark.parametrize("words, offered", [
    (["cep", ""], {*COMMANDS}),
    (["cep", "mer"], {"merge"}),
    (["cep", "summarize", "--mark"], {"--markdown"}),
    (["cep", "summarize", "job", "--color", ""], {"auto", "never", "always"}),
    (["cep", "summarize", "--color", "a"], {"auto", "always"}),
    (["cep", "summarize", "--by", ""], {"phase", "rank", "host", "step:100"}),
    (["cep", "comm", "--by", ""], {"kind", "group"}),
    (["cep", "merge", "--attempt", ""], {"all", "last"}),
    (["cep", "compare", "--fail-on", ""], {"regression", "step-regression", "undecided"}),
    (["cep", "completion", ""], {"bash", "zsh", "fish"}),
    (["cep", "simulate", "--gradient"], {"--gradient-mb"}),
    (["cep", "help", "mer"], {"merge"}),
    (["cep", "help", "top"], {"topics"}),
])
def test_shells_complete_commands_options_and_values(script, shell, words, offered):
    assert COMPLETE[shell](script(shell), words) == offered


@pytest.mark.parametrize("words", [["merge", "jo"], ["merge", "-o", "jo"], ["merge", "--color=always", "jo"], ["nonsense", "jo"]])
def test_other_words_complete_to_files(script, words):
    for shell in COMPLETE:
        (script(shell).parent / "job.jsonl").touch()
    assert complete_in_bash(script("bash"), ["cep", *words]) == set()  # "-o default" then takes files
    assert complete_in_zsh(script("zsh"), ["cep", *words]) == set()
    assert complete_in_fish(script("fish"), ["cep", *words]) == {"job.jsonl"}


def test_a_value_behind_an_equals_sign_is_completed(script):
    assert complete_in_bash(script("bash"), ["cep", "summarize", "--color", "=", "n"]) == {"never"}
    assert complete_in_bash(script("bash"), ["cep", "summarize", "--color", "="]) == {"auto", "never", "always"}
    assert "--color=never" in complete_in_fish(script("fish"), ["cep", "summarize", "--color=n"])
    assert complete_in_zsh(script("zsh"), ["cep", "summarize", "--color=n"]) == {"--color=never"}


def test_all_options_are_offered(script):
    for command in COMMANDS:
        assert complete_in_bash(script("bash"), ["cep", command, "-"]) == options_of(command)


@pytest.mark.parametrize("command, option", [("summarize", "--by"), ("comm", "--by"), ("summarize", "--fail-on"),
                                             ("summarize", "--attempt"), ("merge", "--attempt"), ("check", "--color")])
def test_completed_values_are_accepted(cep, script, four_ranks, command, option):
    values = complete_in_bash(script("bash"), ["cep", command, option, ""])
    assert len(values) > 1
    for value in values:
        done = subprocess.run([cep.program, command, option, value, "job"], cwd=cep.folder, capture_output=True, check=False)
        assert done.returncode in (0, 1), (value, done.stderr)


# Terminals.

def run_on_terminal(cep, arguments, statuses=(0,), **variables):
    """What a command writes to a terminal."""
    script_arguments = ["script", "-qec", " ".join([cep.program, *arguments]), "/dev/null"]
    if shutil.which("script") is None:
        pytest.skip("script is missing")
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM", "COLUMNS")}
    done = subprocess.run(script_arguments, cwd=cep.folder, env={**environment, **variables}, capture_output=True,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode in statuses, done.stdout
    return done.stdout


@pytest.mark.parametrize("variables, colors", [
    ({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
])
def test_colors_only_where_the_terminal_shows_them(cep, four_ranks, variables, colors):
    assert (b"\x1b[" in run_on_terminal(cep, ["check", "job"], **variables)) is colors


def widest_line(text):
    return max(len(line) for line in text.decode().replace("\r", "").splitlines())


@pytest.mark.parametrize("command", readers_with("--limit"))
def test_tables_fit_on_a_terminal(cep, four_ranks, command):
    shutil.copytree(TRACES, cep.folder / "traces")
    with open(four_ranks.path(2), "ab") as file:
        file.write(b'{"type": "span", "step": 1, "rank": 2, "name": "no duration, which is said in many words"}\n' * 3)
    text = run_on_terminal(cep, [command, *inputs_of(command)], statuses=(0, 4), TERM="xterm", NO_COLOR="1", COLUMNS="80")
    assert widest_line(text) <= 80


def test_a_table_without_room_says_what_it_leaves_out(cep, four_ranks):
    for columns, is_short in (("80", True), ("200", False)):
        text = run_on_terminal(cep, ["compare", "job", "job"], TERM="xterm", COLUMNS=columns)
        assert (b"no room for typical, share" in text) is is_short


@pytest.mark.parametrize("command", [command for command in READERS if "--json" not in options_of(command)])
def test_a_command_says_what_it_wrote(cep, four_ranks, command):
    what = {"metrics": b"figures of 4 ranks", "report": b"at most"}.get(command, b"rows")
    said = cep(command, "-o", "written", "job").stderr
    assert said.startswith(f"cep {command}: wrote written: ".encode()) and what in said
    if command == "merge":
        assert f", {len((cep.folder / 'written').read_text().splitlines())} rows".encode() in said
    assert b"wrote" not in cep(command, "job").stderr


def test_directories_with_rank_files_inside_of_one_without_are_named(cep, four_ranks, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(four_ranks.path(0).parent, tmp_path / "runs" / name)
    (tmp_path / "runs" / "notes").mkdir()
    said = cep("summarize", "runs", status=3).stderr
    assert b"runs: no cuda_events_rank_*.jsonl files; there are some in runs/one, runs/two" in said


def test_json_has_no_colors_on_a_terminal(cep, four_ranks):
    text = run_on_terminal(cep, ["check", "--json", "job"], TERM="xterm")
    assert json.loads(text)["severity"] == "fine"


@pytest.mark.parametrize("limit", ["-1", "-0", "1.5", "x", "", str(2**64)])
@pytest.mark.parametrize("command", readers_with("--limit"))
def test_a_limit_is_a_whole_number(cep, four_ranks, command, limit):
    assert b"--limit" in cep(command, "--limit", limit, "job", status=2).stderr


def test_an_output_file_has_the_format_of_its_name(cep, four_ranks):
    for name, option in (("comm.json", "--json"), ("comm.csv", "--csv"), ("comm.md", "--markdown"), ("comm.txt", None)):
        assert cep("comm", "-o", name, "job").stdout == b""
        shown = cep("comm", *([option] if option else []), "job").stdout
        assert (cep.folder / name).read_bytes() == shown


@pytest.mark.parametrize("command", [command for command in readers_with("--ranks") if command not in (
    "compare", "comm", "estimate")])  # these say it of jobs, of communication, and --ranks are those of a plan
def test_a_command_says_that_a_filter_left_nothing(cep, four_ranks, command):
    said = cep(command, "-o", "out.json", "--ranks", "99", "job").stderr.decode().splitlines()
    words = "no rows among those" if command == "merge" else "no spans among the rows"
    assert f"cep {command}: {words} that were asked for" in said, said


@pytest.mark.parametrize("command", readers_with("--markdown"))
def test_reasons_and_advice_are_items_of_lists(cep, four_ranks, simulate, tmp_path, command):
    """They begin with a small letter, unless a name begins them, and end without a full stop."""
    simulate("other", "--ranks", 4, "--steps", 60, "--record-every", 1)
    shutil.copytree(TRACES, tmp_path / "traces")
    text = cep(command, *(["job", "other"] if command == "compare" else inputs_of(command))).stdout.decode()
    lists = re.search(r"^(because|next) .*?\n\n", text, re.MULTILINE | re.DOTALL)
    items = [line[10:] for line in lists[0].splitlines() if line.strip()] if lists else []
    assert items or command not in ("summarize", "compare", "kernels"), text
    for item in items:
        assert not item.endswith(".") and not re.match("(The|A|Of|Where|No|Few|Steps|Rank|Copies|Stragglers) ", item), item


def test_inputs_that_cannot_be_read_are_listed_alike(cep, tmp_path):
    (tmp_path / "empty").mkdir()
    for command in {*READERS} - {"check", "compare"}:  # which say it of each file, and of A and B
        said = cep(command, "missing", "empty", status=3).stderr.decode().splitlines()
        assert said[0] == f"cep {command}: 2 inputs unreadable" and "  missing: No such file or directory" in said[1:3], said
        assert any(line.startswith("  empty: no ") for line in said[1:3]) and said[3].startswith(f"cep {command}: no ") and len(said) == 4, said
