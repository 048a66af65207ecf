# SPDX-License-Identifier: Apache-2.0
"""The manual as pages of the guide.

    manual.py MAN_FOLDER OUTPUT_FOLDER

mandoc makes the HTML of each page. Each section becomes one of the guide's, so that the guide's contents and search know it.
"""

import html
import re
import subprocess
import sys
from pathlib import Path

SECTIONS = {"1": "Commands", "3": "C interface", "5": "Files", "7": "Concepts"}


def page_name(page: Path) -> str:
    """cep-merge.1 becomes cep-merge-1: a name with one dot less is a file name with one ending."""
    return page.stem + "-" + page.suffix[1:]


def functions(page: Path) -> list[str]:
    """The names that a page documents."""
    return re.findall(r"^\.Nm (\S+)", page.read_text(encoding="utf-8").split(".Sh SYNOPSIS")[0], flags=re.M)


def known_pages(pages: list[Path]) -> dict[str, str]:
    """The file of the guide for each name of the manual, such as cep_end(3)."""
    known = {}
    for page in pages:
        for name in [page.stem, *functions(page)]:
            known[f"{name}.{page.suffix[1:]}"] = page_name(page)
    return known


def description(page: Path) -> str:
    (text,) = re.findall(r"^\.Nd (.*)", page.read_text(encoding="utf-8"), flags=re.M)
    return text.replace("\\-", "-")


def link(match: re.Match[str], known: dict[str, str]) -> str:
    """A link to a page of this manual; a name alone for a page of another."""
    target, text = match[1], match[2]
    return f'<a class="Xr" href="{known[target]}.html">{text}</a>' if target in known else f'<span class="Xr">{text}</span>'


def convert(page: Path, known: dict[str, str]) -> str:
    command = ["mandoc", "-Thtml", "-O", "fragment,man=%N.%S", str(page)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r'<a class="Xr" href="([^"]*)">(.*?)</a>', lambda match: link(match, known), text, flags=re.S)
    # A link of each heading and option to itself: the guide's headings have their own.
    text = re.sub(r'<a class="permalink" href="#[^"]*">(.*?)</a>', r"\1", text, flags=re.S)
    # The head and foot tables say what the title says.
    text = re.sub(r'<table class="(head|foot)">.*?</table>', "", text, flags=re.S)
    parts = re.split(r'<section class="Sh">\s*<h1 class="Sh" id="([^"]*)">(.*?)</h1>', text, flags=re.S)
    out = [f"# {page.stem}({page.suffix[1:]})\n"]
    for identifier, heading, body in zip(parts[1::3], parts[2::3], parts[3::3]):
        title = html.unescape(re.sub(r"<[^>]*>", "", heading)).capitalize()
        if title != "Name":
            out.append(f"## {title}\n")
        body = re.sub(r"</section>\s*(</div>\s*)?$", "", body.strip())
        # A section's own ids must not be those that the guide gives to its headings.
        body = re.sub(r'id="([^"]*)"', r'id="man-\1"', body)
        body = re.sub(r'href="#([^"]*)"', r'href="#man-\1"', body)
        anchor = f'<span id="man-{identifier}"></span>'
        out.append(f'```{{raw}} html\n<div class="manual">{anchor}\n{body}\n</div>\n```\n')
    return "\n".join(out)


def index(pages: list[Path]) -> str:
    out = ["# Manual\n", "`man` shows the same pages where cep is installed.\n"]
    for number, title in SECTIONS.items():
        out.append(f"## {title}\n")
        chosen = [page for page in pages if page.suffix[1:] == number]
        out += [f"- [{page.stem}({number})]({page_name(page)}.md): {description(page)}" for page in chosen]
        out.append("")
    names = "\n".join(page_name(page) for page in pages)
    return "\n".join(out) + f"\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def main() -> None:
    manual, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    pages = sorted(manual.glob("*.[1357]"), key=lambda page: (page.suffix, page.stem))
    known = known_pages(pages)
    for page in pages:
        (output / f"{page_name(page)}.md").write_text(convert(page, known), encoding="utf-8")
    (output / "index.md").write_text(index(pages), encoding="utf-8")


if __name__ == "__main__":
    main()
