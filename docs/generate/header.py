# SPDX-License-Identifier: Apache-2.0
"""The C header as a page of the guide.

    header.py HEADER OUTPUT

Each documented declaration becomes an entry with its comment; the comments of the sections become headings. A declaration
without a comment is an error.
"""

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"/\*\*(.*?)\*/", flags=re.S)
SECTION = re.compile(r"^/\* -+ (.*?) -+ \*/$", flags=re.M)
TITLE = "The C header"


def comment_text(comment: str) -> str:
    """The text of a comment without its stars."""
    return "\n".join(re.sub(r"^\s*\*? ?", "", line) for line in comment.strip().splitlines())


def protect(text: str) -> str:
    """Names and constants as code, so that nothing in them is markup."""
    pieces = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(pieces), 2):
        piece = re.sub(r"(?<!\w)(cep_stats\.\w+|cep_\w+\(\)|cep_\w+\*?|CEP_[A-Z_]+…?|CEP_<OPTION>)", r"`\1`", pieces[index])
        piece = re.sub(r"(?<!`)<(?!`)", r"\\<", piece)
        pieces[index] = piece if "`" in piece else piece.replace("*", "\\*")
    return "".join(pieces)


def entries(text: str) -> list[tuple[str, str]]:
    """The description and the tagged parts of a comment: ("", text), ("param name", text), ("return", text)."""
    found: list[tuple[str, str]] = [("", "")]
    in_code = False
    for line in text.splitlines():
        tag = re.match(r"@(param \w+|return)\s*(.*)", line)
        if line.startswith("@code"):
            in_code = True
            line = "\n```c"
        elif line.startswith("@endcode"):
            in_code = False
            line = "```\n"
        if tag:
            found.append((tag[1], tag[2]))
        elif found[-1][0] and not in_code and line and not line.startswith(" "):
            found.append(("", line))  # text after the tags that is no continuation of theirs
        else:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + (line if in_code or line.startswith("```") else line.strip(" ")))
    return [(tag, part.strip("\n")) for tag, part in found if part.strip()]


def prose(text: str) -> str:
    pieces = re.split(r"(```c\n.*?```)", text, flags=re.S)
    return "".join(piece if piece.startswith("```") else protect(piece) for piece in pieces)


def one_line(text: str) -> str:
    return " ".join(protect(text).split())


def body(comment: str) -> str:
    out, fields = [], []
    for tag, text in entries(comment):
        if tag.startswith("param"):
            fields.append(f"- `{tag.split()[1]}`: {one_line(text)}")
        elif tag:
            fields.append(f"- returns {one_line(text)}")
        else:
            if fields:
                out += ["\n".join(fields), ""]
                fields = []
            out += [prose(text), ""]
    if fields:
        out += ["\n".join(fields), ""]
    return "\n".join(out)


def declaration_after(text: str, position: int) -> str:
    """The declaration that begins at a position: to its semicolon outside of braces, or a macro's line."""
    rest = text[position:].lstrip("\n")
    if rest.startswith("#define"):
        return rest.split("\n")[0]
    depth = 0
    for index, character in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == ";" and depth == 0:
            return rest[: index + 1]
    raise ValueError(f"no declaration after: {rest[:80]}")


def name_of(declaration: str) -> str:
    patterns = (r"#define (\w+)", r"CEP_API [^(]*?(\w+)\(", r"typedef struct (\w+) ", r"typedef [\w ]*?(\w+);")
    for pattern in patterns:
        match = re.match(pattern, declaration, flags=re.S)
        if match:
            return match[1]
    raise ValueError(f"what is declared here? {declaration[:80]}")


def members(declaration: str) -> str:
    """The documented members of a struct as a table."""
    inside = declaration[declaration.index("{") + 1 : declaration.rindex("}")]
    # A comment stands before its member on lines of its own, or behind it on its line.
    member = re.compile(r"(?:^ *(/\*\*(?:(?!\*/).)*?\*/)\n)?^ *([\w][\w *]*?\w) *; *(/\*\*.*?\*/)?", flags=re.M | re.S)
    rows = ["| member | meaning |", "|---|---|"]
    for before, text, behind in member.findall(inside):
        comment = (before or behind)[3:-2].removeprefix("<")
        rows.append(f"| `{' '.join(text.split())}` | {one_line(comment_text(comment))} |".replace("||", "\\|\\|"))
    return "\n".join(rows) + "\n"


def constants(rows: list[tuple[str, str, str]]) -> str:
    table = ["| constant | value | meaning |", "|---|---|---|"]
    return "\n".join(table + [f"| `{name}` | `{value}` | {one_line(text)} |" for name, value, text in rows]) + "\n\n"


class Page:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.table: list[tuple[str, str, str]] = []

    def end_table(self) -> None:
        if self.table:
            self.parts.append(constants(self.table))
            self.table = []

    def add(self, text: str) -> None:
        self.end_table()
        self.parts.append(text)

    def text(self) -> str:
        self.end_table()
        return "".join(self.parts)


def add_declaration(page: Page, declaration: str, comment: str) -> str:
    name = name_of(declaration)
    shown = declaration.replace("CEP_API ", "")
    if "{" in declaration and declaration.startswith("typedef"):
        page.add(f"### `{name}`\n\n{body(comment)}\n{members(declaration)}\n")
    else:
        page.add(f"### `{name}`\n\n```c\n{shown}\n```\n\n{body(comment)}\n")
    return name


def make_page(header: str) -> str:
    page, documented = Page(), set()
    constant = re.compile(r"#define (CEP_\w+) +([^\n]+?) +/\*\*<(.*?)\*/")
    position = 0
    token = re.compile(rf"({SECTION.pattern})|({constant.pattern})|({COMMENT.pattern})", flags=re.M | re.S)
    while match := token.search(header, position):
        position = match.end()
        if match[1]:
            page.add(f"## {match[2].strip()}\n\n")
        elif match[3]:
            page.table.append((match[4], match[5], match[6].strip()))
            documented.add(match[4])
        else:
            text = comment_text(match[8])
            following = header[position:].lstrip("\n")
            if text.startswith("@file") or not re.match(r"#define|typedef|CEP_API", following):
                page.add(body(re.sub(r"@file.*\n?|@brief ?", "", text)) + "\n")
                continue
            declaration = declaration_after(header, position)
            documented.add(add_declaration(page, declaration, text))
            position = header.index(declaration, position) + len(declaration)
    functions = set(re.findall(r"^CEP_API [^(]*?(\w+)\(", header, flags=re.M))
    if functions - documented:
        raise SystemExit(f"header.py: not documented: {', '.join(sorted(functions - documented))}")
    return page.text()


def main() -> None:
    header = Path(sys.argv[1]).read_text(encoding="utf-8")
    start = f"# {TITLE}\n\n`#include <cep/cep.h>` declares everything that a program uses. This page is made from its comments;\n"
    start += "the [manual](manual/cep-3.md) explains how the calls belong together.\n\n## General\n\n"
    Path(sys.argv[2]).write_text(start + make_page(header), encoding="utf-8")


if __name__ == "__main__":
    main()
