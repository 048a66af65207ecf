#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/guide/verdict.md: those of the report's page that stand still, each as a file of its own.

    CEP_COMMAND=build/tools/cep python3 docs/generate/pictures.py

The jobs are those that the page simulates. Run it again when the report has changed; the files are kept in the tree.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[1] / "guide"
PICTURES = {
    "persistent-heat": ("persistent", "heat-map"),
    "window-timeline": ("window", "timeline-0"),
    "stage-heat": ("stage", "heat-map"),
}


def simulations() -> dict[str, str]:
    """The commands of the page that simulate each job."""
    text = re.sub(r"\\\n> *", "", (GUIDE / "verdict.md").read_text(encoding="utf-8"))
    commands = re.finditer(r"^\$ ((?:echo .*\n\$ )?cep simulate -o (\S+) .*)$", text, flags=re.M)
    return {match[2]: match[1].replace("\n$ ", " && ") for match in commands}


def style(page: str) -> str:
    """What the page's style says of pictures, on a light ground."""
    (text,) = re.findall(r"<style>(.*?)</style>", page, flags=re.S)
    variables = re.search(r":root\{.*?\}", text, flags=re.S)[0].replace("color-scheme:light;", "")
    text = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^}]*\})*[^{}]*\}", "", text)
    rules = re.findall(r"(?:svg |\.k-|\.v\d|\.hatch)[^{}]*\{[^}]*\}", text)
    rules = [rule for rule in rules if "figure" not in rule and "#hatch" not in rule]
    return f"<style>{variables}svg{{background:#fff}}" + "".join(rules) + "</style>"


def picture(page: str, identifier: str) -> str:
    svg = re.search(rf'<svg [^>]*aria-labelledby="{identifier}-t .*?</svg>', page, flags=re.S)[0]
    head, rest = svg.split(">", 1)
    return f"{head}>{style(page)}{rest}\n"


def main() -> None:
    command = os.path.abspath(os.environ["CEP_COMMAND"])
    made = simulations()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cep").symlink_to(command)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
        for name, (job, identifier) in PICTURES.items():
            subprocess.run(["sh", "-c", made[job]], cwd=folder, env=environment, check=True)
            subprocess.run([command, "report", "-o", "report.html", job], cwd=folder, check=True)
            page = (Path(folder) / "report.html").read_text(encoding="utf-8")
            (GUIDE / f"static/{name}.svg").write_text(picture(page, identifier), encoding="utf-8")


if __name__ == "__main__":
    main()
