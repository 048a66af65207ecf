# SPDX-License-Identifier: Apache-2.0
"""The Python package as pages of the guide.

    package.py PACKAGE_FOLDER OUTPUT_FOLDER

Signatures and docstrings are read from the source, so that neither the library nor a framework is needed.
"""

import ast
import re
import sys
import textwrap
from pathlib import Path
from typing import Optional, Union

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Definition = Union[Function, ast.ClassDef]

MODULES = {
    "cep": None,
    "cep.torch": None,
    "cep.integrations": None,
    "cep.integrations.lightning": None,
    "cep.integrations.transformers": None,
    "cep.integrations.accelerate": None,
    "cep.compat": ["CudaEventProfiler"],
}
# Classes whose bases are chosen when the package is imported: the calls of a step loop in C, or these in Python.
CALLS = {"ProfilerCalls": "_ctypes_calls", "RegionCalls": "_ctypes_calls"}
FIELDS = ("Args", "Returns", "Raises", "Yields", "Attributes")


class Package:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trees: dict[str, ast.Module] = {}

    def file_of(self, module: str) -> Path:
        path = self.folder.joinpath(*module.split(".")[1:])
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def tree(self, module: str) -> ast.Module:
        if module not in self.trees:
            self.trees[module] = ast.parse(self.file_of(module).read_text(encoding="utf-8"))
        return self.trees[module]

    def imported_from(self, module: str, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        base = module.split(".")
        if self.file_of(module).name != "__init__.py":
            base = base[:-1]
        base = base[: len(base) - statement.level + 1]
        return ".".join(base + ([statement.module] if statement.module else []))

    def find(self, module: str, name: str) -> Optional[tuple[str, Definition]]:
        """Where a class or function is defined; None for another value."""
        own = None
        for node in ast.walk(self.tree(module)):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                own = own or (module, node)
        if own:
            return own
        for node in self.tree(module).body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        source = self.imported_from(module, node)
                        return self.find(source, alias.name) if source.startswith("cep") else None
        return None

    def docstring(self, module: str, node: ast.ClassDef) -> str:
        """That of a class, or of the first of its bases that has one."""
        texts = [ast.get_docstring(node), *(self.docstring(*base) for base in self.bases(module, node))]
        return next((text for text in texts if text), "")

    def bases(self, module: str, node: ast.ClassDef) -> list[tuple[str, ast.ClassDef]]:
        found = []
        for base in node.bases:
            expression = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(expression, ast.Attribute):
                owner = self.find_module(module, expression.value)
                definition = self.find(owner, expression.attr) if owner else None
            elif isinstance(expression, ast.Name) and expression.id in CALLS:
                definition = self.find("cep." + CALLS[expression.id], expression.id)
            elif isinstance(expression, ast.Name):
                definition = self.find(module, expression.id)
            else:
                definition = None
            if definition and isinstance(definition[1], ast.ClassDef) and definition[1] is not node:
                found.append((definition[0], definition[1]))
        return found

    def find_module(self, module: str, expression: ast.expr) -> Optional[str]:
        if not isinstance(expression, ast.Name):
            return None
        for node in self.tree(module).body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == expression.id:
                        return f"{self.imported_from(module, node)}.{alias.name}"
        return None

    def methods(self, module: str, node: ast.ClassDef) -> dict[str, Function]:
        """The public methods of a class and of its bases in the package."""
        found: dict[str, Function] = {}
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and (not item.name.startswith("_") or item.name == "__init__"):
                found.setdefault(item.name, item)
        for base_module, base in self.bases(module, node):
            for name, method in self.methods(base_module, base).items():
                found.setdefault(name, method)
        return found

    def names(self, module: str) -> list[str]:
        if MODULES[module] is not None:
            return MODULES[module]
        for node in self.tree(module).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return ast.literal_eval(node.value)
        raise SystemExit(f"package.py: {module} does not say what is public")


def signature(function: Function, name: str, is_method: bool) -> str:
    decorators = {getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in function.decorator_list}
    if "property" in decorators:
        return f"{name}: {ast.unparse(function.returns)}" if function.returns else name
    arguments = ast.unparse(function.args)
    if is_method and "staticmethod" not in decorators:
        arguments = re.sub(r"^(self|cls)(: \w+)?(, |$)", "", arguments).removeprefix("/, ")
    text = f"{name}({arguments})"
    if function.returns is not None and ast.unparse(function.returns) != "None":
        text += f" -> {ast.unparse(function.returns)}"
    if len(text) > 100:
        text = text.replace(f"({arguments})", f"(\n{split_arguments(arguments)},\n)", 1)
    return text


def split_arguments(text: str) -> str:
    """One argument a line: at commas outside of brackets."""
    depth, line, lines = 0, "", []
    for character in text:
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            lines.append(line.strip())
            line = ""
        else:
            line += character
    return ",\n".join("    " + part for part in [*lines, line.strip()])


def fields(title: str, block: str) -> str:
    """Arguments, results and errors as a list."""
    out = [f"*{title}*:"] if title != "Args" else []
    entry = re.compile(r"^(\*{0,2}[\w., ]+): +(.*)", flags=re.S)
    entries: list[str] = []
    for line in textwrap.dedent(block).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif title == "Returns" and entries:
            entries[-1] += " " + line.strip()
        elif line:
            entries.append(line)
    for text in entries:
        match = entry.match(text)
        if match and title != "Returns":
            out.append(f"- `{match[1]}`: {inline(match[2])}")
        else:
            out.append(f"- {inline(text)}")
    return "\n".join(out[:1] + ([""] if title != "Args" else []) + out[1:]) + "\n"


def inline(text: str) -> str:
    """Code as code: calls and dotted names; nothing else is markup."""
    pieces = re.split(r"(``.*?``)", text)
    for index in range(0, len(pieces), 2):
        piece = re.sub(r"(?<![\w.])((?:[\w]+\.)*\w+\(\))", r"``\1``", pieces[index])
        code = re.split(r"(``.*?``)", piece)
        for inner in range(0, len(code), 2):
            code[inner] = code[inner].replace("<", "\\<").replace("*", "\\*").replace("__", "\\_\\_")
        pieces[index] = "".join(code)
    return "".join(pieces).replace("``", "`")


def markdown(docstring: str) -> str:
    """A docstring, with its sections as lists and its examples as code."""
    out, lines = [], docstring.splitlines()
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        section = re.match(r"^(\w+):$", line)
        if section and section[1] in FIELDS or line.endswith("::") or is_code(lines, position - 1):
            start = position if section and section[1] in FIELDS or line.endswith("::") else position - 1
            block = []
            position = start
            while position < len(lines) and (not lines[position] or lines[position].startswith(" ")):
                block.append(lines[position])
                position += 1
            text = "\n".join(block)
            if section and section[1] in FIELDS:
                out += ["", fields(section[1], text)]
            else:
                if start != position and line.endswith("::") and line != "::":
                    out += [inline(line[:-1]), ""]
                out += ["", "```python", textwrap.dedent(text).strip("\n"), "```", ""]
        else:
            out.append(line if line.startswith("|") else inline(line))
    return "\n".join(out).strip("\n") + "\n"


def is_code(lines: list[str], position: int) -> bool:
    return lines[position].startswith("    ") and (position == 0 or not lines[position - 1])


def describe_function(function: Function, name: str, level: str, is_method: bool) -> list[str]:
    text = ast.get_docstring(function)
    out = [f"{level} `{name.rstrip()}`\n", f"```python\n{signature(function, name, is_method)}\n```\n"]
    return out + ([markdown(text)] if text else [])


def describe_class(package: Package, module: str, node: ast.ClassDef, name: str) -> list[str]:
    methods = package.methods(module, node)
    out = [f"## `{name}`\n"]
    constructor = methods.pop("__init__", None)
    text = package.docstring(module, node)
    # "What gather() returns": only the package makes such objects.
    if constructor and len(constructor.args.args) + len(constructor.args.kwonlyargs) > 1 and not text.startswith("What "):
        out.append(f"```python\n{signature(constructor, name, True)}\n```\n")
    if text:
        out.append(markdown(text))
    for method_name in sorted(methods):
        if ast.get_docstring(methods[method_name]):
            out += describe_function(methods[method_name], method_name, "###", True)
    return out


def page(package: Package, module: str) -> str:
    tree = package.tree(module)
    out = [f"# `{module}`\n", markdown(ast.get_docstring(tree) or "")]
    constants = []
    for name in package.names(module):
        found = package.find(module, name)
        if found is None:
            constants.append(name)
        elif isinstance(found[1], ast.ClassDef):
            out += describe_class(package, *found, name)
        else:
            out += describe_function(found[1], name, "##", False)
    if constants:
        shown = ", ".join(f"`{name}`" for name in constants)
        out.append(f"## Constants and types\n\n{shown}\n")
    return "\n".join(out)


def main() -> None:
    package, output = Package(Path(sys.argv[1])), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        (output / f"{module.replace('.', '-')}.md").write_text(page(package, module), encoding="utf-8")
    names = "\n".join(module.replace(".", "-") for module in MODULES)
    head = "# Python package\n\nMade from the docstrings; `help(cep)` shows the same.\n"
    (output / "index.md").write_text(f"{head}\n```{{toctree}}\n\n{names}\n```\n", encoding="utf-8")


if __name__ == "__main__":
    main()
