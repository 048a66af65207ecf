# SPDX-License-Identifier: Apache-2.0
"""The built guide is whole: every link within it leads somewhere, nothing is loaded from elsewhere, and every function of
the header and every page of the manual is in it.

    site_test.py REPOSITORY PYTHON [NODE]
"""

import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

SKIPPED = 77
LOADING = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data"}
ELSEWHERE = re.compile(r"^(https?:)?//")


class Page(HTMLParser):
    """The links of a page, what it loads, and the places in it that a link may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str]]) -> None:
        given = dict(attributes)
        if "id" in given:
            self.places.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADING and given.get(LOADING[tag]):
            self.loads.append(given[LOADING[tag]])


def check_target(page: Page, target: str, pages: dict[Path, Page]) -> str:
    """What is wrong with a link or a file that is loaded; nothing if it is there."""
    name, _, place = target.partition("#")
    path = (page.path.parent / unquote(name.split("?")[0])).resolve() if name else page.path.resolve()
    if not path.is_file():
        return f"{page.path.name}: {target}: no such file"
    if place and path in pages and unquote(place) not in pages[path].places:
        return f"{page.path.name}: {target}: no such place"
    return ""


def faults_of(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    faults = [f"{page.path.name}: loads {address}" for page in pages.values() for address in page.loads if ELSEWHERE.match(address)]
    for page in pages.values():
        targets = page.links + [load for load in page.loads if not load.startswith("data:")]
        inside = [target for target in targets if not re.match(r"^[a-z]+:|//", target)]
        faults += filter(None, (check_target(page, target, pages) for target in inside))
    for style in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", style.read_text(encoding="utf-8"), flags=re.S)
        addresses = [address for address in re.findall(r"url\([\"']?([^)\"']+)", text) if not address.startswith("data:")]
        faults += [f"{style.name}: {address}: no such file" for address in addresses if not (style.parent / address).is_file()]
    return faults


def missing_of(repository: Path, site: Path) -> list[str]:
    header = (repository / "include/cep/cep.h").read_text(encoding="utf-8")
    reference = (site / "reference/header.html").read_text(encoding="utf-8")
    functions = re.findall(r"^CEP_API [^(]*?(\w+)\(", header, flags=re.M)
    missing = [name for name in functions if f'id="{name.replace("_", "-")}"' not in reference]
    manual = [page.name.replace(".", "-") for page in (repository / "man").glob("*.[1357]")]
    missing += [name for name in manual if not (site / f"reference/manual/{name}.html").is_file()]
    package = (repository / "bindings/python/cep/__init__.py").read_text(encoding="utf-8")
    public = re.search(r"__all__ = \[(.*?)\]", package, flags=re.S)[1]
    python = (site / "reference/python/cep.html").read_text(encoding="utf-8")
    return missing + [name for name in re.findall(r'"(\w+)"', public) if name not in python]


def has_modules(python: str) -> bool:
    return subprocess.run([python, "-c", "import sphinx, myst_parser, furo"], capture_output=True, check=False).returncode == 0


def main() -> int:
    repository, python = Path(sys.argv[1]), sys.argv[2]
    if not has_modules(python) and not has_modules("/usr/bin/python3"):
        print("skipped: no Sphinx with MyST and furo")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "guide"
        subprocess.run(["sh", str(repository / "tools/guide.sh"), str(site)], check=True)
        faults = faults_of(site) + [f"not in the guide: {name}" for name in missing_of(repository, site)]
        print(*faults, sep="\n")
        if faults:
            return 1
        print(f"{len(list(site.rglob('*.html')))} pages")
        if len(sys.argv) > 3:
            done = subprocess.run([sys.argv[3], str(Path(__file__).with_name("guide_test.mjs")), str(site)], check=False)
            if done.returncode == SKIPPED:
                print("SKIPPED [1] guide_test.mjs:1: no Chromium or no packages of tests/browser")
                return 0
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
