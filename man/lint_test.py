# SPDX-License-Identifier: Apache-2.0
"""mandoc has no warnings about the given pages, and prints their headings as they are written. Exits with 77 if mandoc is
missing."""

import re
import shutil
import subprocess
import sys

SKIPPED = 77


def has_warnings(page: str) -> bool:
    return subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page]).returncode != 0


def headings_in_source(page: str) -> list[str]:
    with open(page, encoding="utf-8") as file:
        found = re.findall(r'^\.S[hs] (.*)$', file.read(), re.MULTILINE)
    return [heading.replace(r"\&", "").replace('"', "") for heading in found]


def printed(page: str) -> str:
    text = subprocess.run(["mandoc", "-T", "utf8", page], capture_output=True, text=True, check=True).stdout
    return re.sub(".\b", "", text)


def changed_headings(page: str) -> list[str]:
    """A word such as In, which is a macro too, is something else in a heading: "In Python" becomes "<Python>"."""
    lines = {line.strip() for line in printed(page).splitlines()}
    return [heading for heading in headings_in_source(page) if heading not in lines]


def swallowed_words(page: str) -> list[str]:
    """The same at the beginning of an item or of a cell: "No verdict" becomes "verdict"."""
    with open(page, encoding="utf-8") as file:
        return re.findall(r"^\.(?:It|It .* Ta) ((?:Ad|An|At|Do|En|In|No|So) [a-z].*)", file.read(), re.MULTILINE)


def beyond_ascii(page: str) -> list[str]:
    """What groff, by itself, takes for Latin-1."""
    with open(page, encoding="utf-8") as file:
        return [line.rstrip() for line in file if not line.isascii()]


def lost_references(page: str) -> list[str]:
    """References to a section of the page that it does not have."""
    with open(page, encoding="utf-8") as file:
        named = re.findall(r'^\.(?:Pq see )?S[x] "?(.*?)"?(?: [.,;:)])*$', file.read(), re.MULTILINE)
    return [name for name in named if name not in headings_in_source(page)]


def nested_quotes(page: str) -> list[str]:
    return re.findall("‘[^’]*‘[^’]*’", printed(page))


def sentences_without_end(page: str) -> list[str]:
    """A reference whose full stop was lost: "inherited through fork(2) It accepts"."""
    text = " ".join(printed(page).split("SEE ALSO")[0].split())
    return re.findall(r"[\w-]+\(\d\),? (?:It|Its|Each|The|This|These|A|An|If|Where|With) [\w ]{1,20}", text)


MISTAKES = (
    (changed_headings, "a heading is printed otherwise"),
    (swallowed_words, "begins with a macro, write \\& before it"),
    (beyond_ascii, "a character that groff needs an escape for"),
    (lost_references, "no section is called so"),
    (nested_quotes, "a quote within a quote"),
    (sentences_without_end, "a full stop is missing"),
)


def main() -> int:
    if shutil.which("mandoc") is None:
        print("skipped: mandoc is missing")
        return SKIPPED
    failed = [page for page in sys.argv[1:] if has_warnings(page)]
    for page in sys.argv[1:]:
        for find, mistake in MISTAKES:
            for text in find(page):
                print(f"{page}: {mistake}: {text}")
                failed.append(page)
    print(f"{len(sys.argv) - 1} pages, {len(set(failed))} with warnings")
    return 1 if failed or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
