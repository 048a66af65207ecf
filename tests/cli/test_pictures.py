# SPDX-License-Identifier: Apache-2.0
"""Pictures of `cep summarize`: what a person sees on a terminal, read from its characters."""

import fcntl
import json
import os
import pty
import random
import re
import struct
import subprocess
import termios
import unicodedata
from pathlib import Path

import pytest
from both_builds import programs
from conftest import START_NS, Command, attempt_rows, run_row, span_row

BLOCKS = "·░▒▓█"
ASCII = ".-+*#"
STEP_TIME = "Step time on the median rank: "
UTF8 = {"TERM": "xterm-256color", "LANG": "en_US.UTF-8", "COLUMNS": "100"}


def width_of(text):
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def picture_lines(text):
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(STEP_TIME))
    return lines[first:lines.index("", first)]


class Picture:
    """The picture in a text."""

    def __init__(self, text):
        self.lines = picture_lines(text)
        self.title, self.time, *rest = self.lines
        self.characters = BLOCKS if BLOCKS[1] in self.lines[-1] else ASCII
        self.signs = rest.pop(0) if rest[0].strip("m^ ") == "" else ""
        parts = " ".join("T" if line.startswith(("Own work", "The same")) else "L" for line in rest[:-2]).split("T")
        self.has_strips = len(parts) == 3
        count = parts[1].count("L") if self.has_strips else 0
        self.ranks = dict(map(self.strip, rest[1:1 + count]))
        self.phases = dict(map(self.strip, rest[2 + count:-2]))

    def strip(self, line):
        label, values = re.fullmatch(r"(.*?) {2,}(.*)", line).groups()
        return label, "".join(str(self.characters.index(c)) if c != " " else " " for c in values)

    def slow_lines(self):
        """Labels of lines most of which is dark."""
        return [label for label, values in {**self.ranks, **self.phases}.items()
                if sum(c > "0" for c in values) > len(values) / 2]


@pytest.fixture
def on_terminal(cep):
    """What a command writes to a terminal of its own, in each build."""
    def run(*arguments, window=None, **variables):
        text, *others = [text_of(program, *arguments, folder=cep.folder, window=window, variables=variables)
                         for program in programs()]
        assert others in ([], [text])
        return text
    return run


def text_of(program, *arguments, folder, window, variables):
    ours, theirs = pty.openpty()
    if window:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, window, 0, 0))
    names = ("NO_COLOR", "TERM", "COLUMNS", "LANG", "LC_ALL", "LC_CTYPE")
    environment = {key: value for key, value in os.environ.items() if key not in names}
    running = subprocess.Popen([program, *arguments], cwd=folder, env={**environment, **variables},
                               stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # its last descriptor is closed
            part = b""
        if not part:
            break
        text += part
    os.close(ours)
    assert running.wait(timeout=60) == 0
    return text.decode().replace("\r\n", "\n")


@pytest.fixture
def picture(on_terminal):
    def draw(*arguments, **more):
        return Picture(on_terminal("summarize", "--color", "never", *arguments, **{**UTF8, **more}))
    return draw


@pytest.fixture(scope="module")
def window_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    fault = {"rank": 9, "phase": "backward", "slowdown": 1.5, "pattern": "window", "first_step": 60, "last_step": 119}
    Command(folder)("simulate", "-o", "window", "--ranks", "32", "--ranks-per-host", "4", "--steps", "200",
                    "--record-every", "2", "--fault", json.dumps(fault))
    return folder / "window"


@pytest.fixture
def window(tmp_path, window_folder):
    """32 ranks on 8 hosts; rank 9 is slow in steps 60 to 119 of 200."""
    (tmp_path / "window").symlink_to(window_folder)
    return "window"


# What is planted can be read.

def test_a_slow_rank_has_a_dark_line(simulate, picture):
    simulate("job", "--ranks", "8", faults=[{"rank": 5, "phase": "forward", "slowdown": 1.5}])
    found = picture("job")
    assert list(found.ranks) == [str(rank) for rank in range(8)]
    assert found.slow_lines() == ["5", "forward"]


def test_a_slow_window_is_dark_in_its_steps(picture, window):
    found = picture(window)
    assert found.ranks.keys() == {f"{4 * i}-{4 * i + 3} node{i}" for i in range(8)}
    for dark in (found.ranks["8-11 node2"], found.phases["backward"]):
        assert abs(re.search("[1-9]", dark).start() / len(dark) - 0.3) < 0.03
        assert abs(re.search("[1-9][^1-9]*$", dark).start() / len(dark) - 0.6) < 0.03
    others = [values for label, values in found.ranks.items() if label != "8-11 node2"]
    assert set("".join(others)) == {"0"}
    slow_time = found.time.split()[1][40:48]
    assert slow_time.strip("▅▆▇█") == ""


@pytest.mark.parametrize("ranks, host, dark", [(64, 3, ["24-31 node3"]), (16, 1, ["8 node1", *map(str, range(9, 16))])],
                         ids=["a line for the host", "a line for each rank"])
def test_a_slow_host_is_dark(simulate, picture, ranks, host, dark):
    simulate("job", "--ranks", ranks, "--ranks-per-host", "8", faults=[{"host": host, "phase": "forward", "slowdown": 1.5}])
    assert picture("job").slow_lines() == [*dark, "forward"]


def test_many_ranks_take_sixteen_lines(simulate, picture):
    simulate("job", "--ranks", "300", "--ranks-per-host", "4", "--steps", "12",
             faults=[{"rank": 290, "phase": "forward", "slowdown": 1.6}])
    found = picture("job")
    assert len(found.ranks) <= 16
    assert found.slow_lines() == ["288-299", "forward"]


def test_a_healthy_job_is_not_dark(simulate, picture):
    simulate("job", "--ranks", "64", "--noise", "0.03")
    found = picture("job")
    dark = [c for values in found.ranks.values() for c in values if c > "1"]
    assert len(dark) < 0.02 * sum(map(len, found.ranks.values()))
    assert found.slow_lines() == []


def test_steps_that_a_rank_lacks_are_blank(cep, job, picture):
    for rank, steps in enumerate((40, 40, 20)):
        job.write(rank, attempt_rows(rank, range(steps), rng=random.Random(rank), world_size=3))
    found = picture("job")
    assert [len(found.ranks[str(rank)]) for rank in range(3)] == [40, 40, 20]


def test_a_step_that_was_cut_off_is_not_dark(picture, job):
    """Its few microseconds differ a lot between ranks."""
    for rank in range(4):
        rows = [run_row(rank, world_size=4)]
        for step in range(30):
            start_ns, work_ms = START_NS + step * 10**8, 0.001 * (rank + 1) if step == 29 else 10.0
            rows.append(span_row(rank, step, "step", 1.1 * work_ms, start_ns, kind="step", depth=0))
            rows.append(span_row(rank, step, "forward", work_ms, start_ns))
        job.write(rank, rows)
    found = picture("job")
    assert set("".join(found.ranks.values())) == {"0"}
    assert found.title == STEP_TIME + "11.00 ms", "it is no time of a step"


def test_the_phase_of_a_straggler_has_a_line_however_short_it_usually_is(simulate, picture):
    short = ("--ranks", "8", "--phases", "data_load=0.0005")
    simulate("healthy", *short)
    assert "data_load" not in picture("healthy").phases
    simulate("job", *short, faults=[{"rank": 2, "phase": "data_load", "slowdown": 500}])
    assert picture("job").slow_lines() == ["2", "data_load"]


@pytest.mark.parametrize("steps", [60, 160, 600])
def test_a_lasting_change_and_marks_are_below_their_steps(simulate, picture, steps):
    simulate("job", "--ranks", "4", "--steps", steps,
             events=[{"type": "slowdown_all", "step": steps // 2, "slowdown": 1.5},
                     {"type": "checkpoint", "step": steps // 8, "duration_ms": 20}])
    found = picture("job")
    first = found.time.index("▁")
    places = len(found.time) - first
    assert found.signs.index("^") - first == pytest.approx(places / 2, abs=1)
    assert found.signs.index("m") - first == pytest.approx(places / 8, abs=1)
    assert found.title.endswith(", ^ lasting change, m mark")


def test_the_time_says_its_least_and_most(cep, job, picture):
    rows = [run_row(0)]
    for step in range(20):
        rows.append(span_row(0, step, "step", 10.0 + 5 * (step >= 10), START_NS + step * 10**8, kind="step", depth=0))
    job.write(0, rows)
    found = picture("job")
    assert found.title.startswith(STEP_TIME + "10.00 ms to 15.00 ms")
    assert found.time.split() == ["time", "▁" * 10 + "█" * 10]
    assert not found.has_strips, "one rank has no peers"


# The terminal.

@pytest.mark.parametrize("variables, characters", [
    ({"LANG": "en_US.UTF-8"}, BLOCKS), ({"LC_CTYPE": "C.utf8"}, BLOCKS), ({"LANG": "C"}, ASCII), ({}, ASCII),
    ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, ASCII), ({"LANG": "en_US.UTF-8", "TERM": "dumb"}, ASCII),
])
def test_the_characters_are_those_that_the_terminal_has(on_terminal, window, variables, characters):
    text = on_terminal("summarize", "--color", "never", window, **{"TERM": "xterm", "COLUMNS": "80", **variables})
    found = Picture(text)
    assert found.characters == characters
    assert characters == BLOCKS or all(line.isascii() for line in found.lines)
    assert found.slow_lines() == [] and max("".join(found.ranks.values())) >= "2"


@pytest.mark.parametrize("columns", [32, 40, 59, 80, 133, 1000])
@pytest.mark.parametrize("lang", ["C", "C.UTF-8"])
def test_no_line_is_wider_than_the_terminal(picture, window, columns, lang):
    found = picture(window, COLUMNS=str(columns), LANG=lang)
    assert max(map(width_of, found.lines)) <= columns
    assert "".join(found.ranks.values()).count("0") < 8 * columns


def test_the_width_is_that_of_the_window(picture, window):
    widths = [max(map(width_of, picture(window, COLUMNS="", window=columns).lines)) for columns in (50, 90)]
    assert widths == [50, 90]


def test_a_narrow_terminal_has_no_picture(on_terminal, window):
    assert STEP_TIME not in on_terminal("summarize", window, **{**UTF8, "COLUMNS": "31"})


def test_shades_have_colors_where_the_terminal_shows_them(on_terminal, window):
    assert "\x1b[33m▓" in on_terminal("summarize", window, **UTF8)
    assert "\x1b" not in on_terminal("summarize", window, **{**UTF8, "NO_COLOR": "1"})


def test_what_is_no_terminal_gets_no_picture(cep, on_terminal, window):
    piped = cep("summarize", window, env=UTF8).stdout
    assert STEP_TIME.encode() not in piped and b"\xe2\x96" not in piped
    wide = {**UTF8, "COLUMNS": "1000"}
    assert on_terminal("summarize", "--no-pictures", "--color", "never", window, **wide).encode() == piped
    on_terminal("summarize", "-o", "summary.txt", window, **UTF8)
    assert (cep.folder / "summary.txt").read_bytes() == piped


def test_pictures_can_be_asked_for(cep, window):
    assert Picture(cep("summarize", "--pictures", window, env=UTF8).stdout.decode()).characters == BLOCKS
    cep("summarize", "--pictures", "-o", "summary.txt", window, env=UTF8)
    assert Picture((cep.folder / "summary.txt").read_text()).has_strips
    assert b"--no-pictures" in cep("summarize", "--pictures", "--no-pictures", window, status=2).stderr


@pytest.mark.parametrize("form", ["--json", "--csv", "--markdown"])
def test_other_formats_have_no_pictures(cep, on_terminal, window, form):
    expected = cep("summarize", form, "--pictures", window).stdout.decode()
    assert on_terminal("summarize", form, window, **UTF8).split() == expected.split()
    assert STEP_TIME not in expected


def test_without_a_verdict_there_is_no_picture(on_terminal, window):
    assert STEP_TIME not in on_terminal("summarize", "--no-verdict", window, **UTF8)


def test_of_more_durations_than_are_kept_the_picture_has_the_steps_that_were(cep, simulate, picture):
    simulate("job", "--ranks", "8", "--steps", "400", "--record-every", "1",
             faults=[{"rank": 2, "phase": "forward", "slowdown": 1.5}])
    found = picture("--max-samples", "2000", "job")
    used = cep.summary("--max-samples", "2000", "job")["verdict"]["steps_used"]
    assert 1 < used < 400 and len(found.ranks["2"]) == min(used, len(found.time))
    assert found.slow_lines()[0] == "2"


# Names.

HOSTILE = ["\x1b[31mred", "节点节点节点节点节点节点一号", "a\nb\rc", "e\u0301" * 30, "\u202eevil", "🚀" * 20, " "]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("lang", ["C", "C.UTF-8"])
def test_hostile_names_do_not_break_lines(on_terminal, job, name, lang):
    for rank in range(3):
        rows = [run_row(rank, world_size=3, host=f"{name}{rank}")]
        for step in range(12):
            start_ns = START_NS + step * 10**8
            rows.append(span_row(rank, step, "step", 12.0, start_ns, kind="step", depth=0))
            rows.append(span_row(rank, step, name, 10.0 + (5 if rank == 2 else 0), start_ns))
        job.write(rank, rows)
    text = on_terminal("summarize", "--color", "never", "job",
                       **{"TERM": "xterm", "LANG": lang, "COLUMNS": "60"})
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    lines = picture_lines(text)
    assert len(lines) == 10 and max(map(width_of, lines)) <= 60
    rows = lines[3:6]
    assert len(set(map(width_of, rows))) == 1, "the values of all lines end in one column"


# Lines of text and tables.

def paragraphs(text):
    """The words before the table, without how lines are broken and indented."""
    return text[:text.index("\nwhere the time went")].split()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_text_is_broken_between_words(cep, on_terminal, window, columns):
    text = on_terminal("summarize", "--no-pictures", "--color", "never", window, **{**UTF8, "COLUMNS": str(columns)})
    assert max(map(width_of, text[:text.index("\nphase ")].splitlines())) <= columns
    piped = cep("summarize", window, env=UTF8).stdout.decode()
    assert paragraphs(text) == paragraphs(piped)
    lines = text[text.index("because"):].split("\n\n")[0].splitlines()
    assert len(lines) > 4 and {line[:10].strip() for line in lines} == {"because", "how sure", "next", ""}


def test_a_narrow_terminal_leaves_out_details_of_a_table(on_terminal, window):
    def heading(columns):
        text = on_terminal("summarize", "--color", "never", window, **{**UTF8, "COLUMNS": str(columns)})
        table = text[text.index("\nphase ") + 1:].splitlines()
        left_out = [line for line in table if line.startswith("… no room for")]
        assert len(left_out) == (columns < 110) and all("--csv" in line for line in left_out)
        assert max(map(width_of, table)) <= columns
        return table[0].replace("slowest rank", "slowest").split(), left_out
    whole, _ = heading(160)
    narrow, (note,) = heading(80)
    assert set(narrow) < set(whole) and {"phase", "p50", "share", "slowest", "skew"} <= set(narrow)
    assert all(name in note for name in set(whole) - set(narrow))


def test_text_is_ascii_where_the_terminal_has_no_more(on_terminal, window):
    text = on_terminal("summarize", "--color", "never", window, TERM="xterm", LANG="C", COLUMNS="80")
    assert text.isascii() and " -> " in text


# Bars of shares.

def bars(text):
    heading, *lines = text[text.index("\nphase "):].strip().split("\n\n")[0].split("\n")
    return [line[heading.index("share") + len("share"):heading.index("slowest")].strip() for line in lines]


def test_shares_have_bars_where_there_is_room(on_terminal, window):
    wide = bars(on_terminal("summarize", "--color", "never", window, **{**UTF8, "COLUMNS": "160"}))
    assert wide[0] == "█" * 10
    lengths = [sum(8 if c == "█" else " ▏▎▍▌▋▊▉".index(c) for c in bar) for bar in wide]
    assert lengths == sorted(lengths, reverse=True) and lengths[1] in range(40, 50)
    assert set(bars(on_terminal("summarize", "--color", "never", window, **UTF8))) == {""}


def test_bars_are_ascii_where_the_terminal_has_no_more(on_terminal, window):
    found = bars(on_terminal("summarize", "--color", "never", window, TERM="xterm", LANG="C", COLUMNS="160"))
    assert found[0] == "#" * 10 and set("".join(found)) == {"#"}


def test_a_table_with_bars_is_no_wider_than_the_terminal(simulate, on_terminal):
    simulate("job", "--ranks", "4", "--steps", "40")
    for columns in range(110, 150, 3):
        text = on_terminal("summarize", "--color", "never", "job", **{**UTF8, "COLUMNS": str(columns)})
        table = text[text.index("\nphase ") + 1:].splitlines()
        assert "█" not in "".join(table) or max(map(width_of, table)) <= columns


# Names

ODD = "f\x1b[31m\x9b0m\u202e"


def test_a_terminal_gets_no_names_that_it_would_obey(cep, on_terminal, job):
    job.write(0, [run_row(0), span_row(0, 1, ODD, 1.0, START_NS)])
    for output in ([], ["--csv"], ["--json"], ["--markdown"]):
        assert not set("\x9b\u202e") & set(on_terminal("summarize", *output, "job", NO_COLOR="1"))
        assert "\x1b[31m" not in on_terminal("summarize", *output, "job")
    assert ODD in cep("summarize", "--csv", "job").stdout.decode()


def test_names_of_a_megabyte_are_short_in_tables_and_whole_in_data(cep, job):
    name = "n" * 10**6
    job.write(0, [run_row(0), *(span_row(0, step, name, 1.0, START_NS + step * 10**7) for step in range(5))])
    table = cep("summarize", "--by", "step:1", "--no-verdict", "job").stdout.decode()
    assert max(map(len, table.splitlines())) < 1000 and "n" * 120 + "…" in table
    assert name in cep("summarize", "--csv", "job").stdout.decode()
    assert cep.summary("job")["phases"][0]["name"] == name


def test_comm_fits_80_columns(on_terminal, window):
    for options in ([], ["--predict", "1M,1G", "--world", "64,512", "--link-gb-per-s", "50"]):
        text = on_terminal("comm", "--color", "never", *options, window, TERM="xterm", LANG="C.UTF-8", COLUMNS="80")
        assert max(map(len, text.splitlines())) <= 80
        assert "typical" in text and "paid" in text and "transfer p50" in text


@pytest.mark.parametrize("arguments", [("summarize", "--by", "rank"), ("summarize", "--by", "host"), ("summarize", "--by", "step:50")])
def test_tables_of_groups_fit_80_columns(on_terminal, window, arguments):
    text = on_terminal(*arguments, "--color", "never", window, TERM="xterm", LANG="C.UTF-8", COLUMNS="80")
    assert max(len(line) for line in text.splitlines()) <= 80


def test_tables_of_kernels_fit_80_columns(on_terminal):
    traces = Path(__file__).parents[1] / "data/traces"
    text = on_terminal("kernels", "--color", "never", traces, TERM="xterm", LANG="C.UTF-8", COLUMNS="80")
    assert max(len(line) for line in text.splitlines()) <= 80
