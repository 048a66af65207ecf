# SPDX-License-Identifier: Apache-2.0
"""cep help WORD: manual pages as text."""

import os
import re
import subprocess
from pathlib import Path

import pytest

MAN = Path(__file__).resolve().parents[2] / "man"
COMMAND_PAGES = sorted(path.stem.removeprefix("cep-") for path in MAN.glob("cep-*.1"))


@pytest.fixture(scope="module")
def with_pages():
    """Skips where the command was built without a program that formats manual pages."""
    listed = subprocess.run([os.environ["CEP_COMMAND"], "help", "topics"], capture_output=True, text=True, check=True)
    if "guide" not in listed.stdout:
        pytest.skip("neither mandoc nor groff was there when cep was built")


@pytest.mark.parametrize("command", COMMAND_PAGES)
def test_help_of_a_command_is_its_manual_page(cep, with_pages, command):
    text = cep("help", command).stdout.decode()
    assert text.startswith(f"CEP-{command.upper()}(1) ")
    assert f"\nNAME\n     cep-{command} " in text and "\nEXIT STATUS\n" in text


def test_pages_are_plain_text_of_80_columns(cep, with_pages):
    for page in MAN.glob("*.[1-9]"):
        text = cep("help", page.name).stdout.decode()
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), page.name
        too_wide = [line for line in text.splitlines() if len(line) > 80]
        assert len(too_wide) <= len(text.splitlines()) / 20, (page.name, too_wide)  # tables and examples stay as they are


@pytest.mark.parametrize("word, title", [
    ("cep", "CEP(1)"), ("guide", "CEP(7)"), ("library", "CEP(3)"), ("c++", "CEP-HPP(3)"), ("cep.7", "CEP(7)"),
    ("jsonl", "CEP-JSONL(5)"), ("cep-jsonl", "CEP-JSONL(5)"), ("cep-verdict.7", "CEP-VERDICT(7)"),
    ("cep_open", "CEP_OPEN(3)"), ("cep_close", "CEP_OPEN(3)"), ("cep_phase", "CEP_BEGIN(3)"),
])
def test_topics_files_and_functions_have_a_page(cep, with_pages, word, title):
    assert cep("help", word).stdout.decode().startswith(title)


def test_every_page_is_in_the_list_of_topics(cep, with_pages):
    listed = re.findall(r"^  (\S+)  +\S", cep("help", "topics").stdout.decode(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    titles = {cep("help", word).stdout.decode().split()[0] for word in listed if word not in ("topics", "completion")}
    assert len(titles) == len(list(MAN.glob("*.[1-9]")))


def test_a_command_without_a_page_shows_its_help(cep):
    assert cep("help", "completion").stdout == cep("completion", "--help").stdout


def test_an_unknown_word_is_corrected_and_the_known_ones_are_named(cep):
    text = cep("help", "mrege", status=2).stderr.decode()
    assert text.startswith("cep: there is no help on 'mrege'; did you mean 'merge'?\n")
    assert re.search(r"^Commands: run merge summarize ", text, re.MULTILINE)
    assert re.search(r"^Topics: .*\btopics$", text, re.MULTILINE)
    assert cep("help", "qqqqqq", status=2).stderr.startswith(b"cep: there is no help on 'qqqqqq'\n")


def test_two_words_are_refused(cep):
    assert cep("help", "merge", "check", status=2).stderr.startswith(b"cep help: more than one word\n")
