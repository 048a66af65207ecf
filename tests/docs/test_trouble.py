# SPDX-License-Identifier: Apache-2.0
"""The page on trouble has each message of the Python package and each diagnostic of the library."""

import ast
import re

from scene import REPOSITORY

PAGE = (REPOSITORY / "docs/guide/trouble.md").read_text(encoding="utf-8")
SPEAKERS = {"say": 0, "_say": 0, "warn": 0, "warned": 0, "tell_mistake": 2}  # which argument is the message
LEAST_LENGTH = 8  # of literal text; what is shorter, as ": ", passes on another's words


def literals(message: ast.expr) -> list[str]:
    """The literal text of a message, between what is put into it."""
    constants = [node.value for node in ast.walk(message) if isinstance(node, ast.Constant)]
    return [part.strip(" :;,") for text in constants if isinstance(text, str) for part in text.split("%s")]


def spoken() -> list[str]:
    found = []
    for path in sorted((REPOSITORY / "bindings/python/cep").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                texts = literals(node.args[SPEAKERS[name]]) if name in SPEAKERS else []
                found += [max(texts, key=len).removeprefix("cep: ")] if texts else []
    return [text for text in found if len(text) >= LEAST_LENGTH]


def diagnostics() -> list[str]:
    """The heads of the list in cep(7), each its longest part between arguments."""
    manual = (REPOSITORY / "man/cep.7").read_text(encoding="utf-8")
    section = manual.split(".Sh DIAGNOSTICS")[1].split("\n.Sh ")[0]
    heads = [re.sub(r'^"|"$|\\&', "", head).replace(r"\(dq", '"') for head in re.findall(r"^\.It (.*)$", section, flags=re.M)]
    return [max(re.split(r"<\w+>", head), key=len).strip(" :,") for head in heads]


def test_the_page_has_each_message():
    messages = spoken() + diagnostics()
    assert len(messages) > 40
    missing = [text for text in messages if text not in PAGE]
    assert not missing, "docs/guide/trouble.md lacks, with cause and remedy:\n" + "\n".join(missing)
