# SPDX-License-Identifier: Apache-2.0
"""All files have the version of meson.build, the changelog has an entry for it, and docs/versioning.md names all schemas.

    version_test.py VERSION
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tools" / "version.py"
VERSION = sys.argv[1]


def run(*options):
    return subprocess.run([sys.executable, PROGRAM, *options], capture_output=True, text=True)


def expect(condition, message):
    if not condition:
        sys.exit(f"version: {message}")


def copy_places(folder):
    """The files that repeat the version, as the check names them where none has the right one."""
    shutil.copy(ROOT / "meson.build", folder)
    for line in re.findall(r'^    \("([^"]+)", ', PROGRAM.read_text(), re.MULTILINE):
        (folder / line).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / line, folder / line)


check = run("--check")
expect(check.returncode == 0, f"files differ from meson.build:\n{check.stdout}{check.stderr}")
expect(run().stdout == f"{VERSION}\n", f"tools/version.py says {run().stdout!r}, Meson says {VERSION}")

changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
expect(re.search(rf"^## \[{re.escape(VERSION)}\] - ", changelog, re.MULTILINE), f"CHANGELOG.md has no entry for {VERSION}")
packaged = (ROOT / "debian" / "changelog").read_text(encoding="utf-8").split("\n", 1)[0]
expect(packaged.startswith(f"cep ({VERSION})"), f"debian/changelog begins with {packaged!r}, not with {VERSION}")

documented = (ROOT / "docs" / "versioning.md").read_text(encoding="utf-8")
sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tools").rglob("*.cpp")) if "node_modules" not in path.parts]
schemas = set(re.findall(r'"(cep\.\w+/\d+)\b', "".join(sources)))
expect(schemas, "no source names a schema")
missing = [schema for schema in sorted(schemas) if f"`{schema}`" not in documented]
expect(not missing, f"docs/versioning.md lacks {', '.join(missing)}")

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    copy_places(folder)
    source = folder / "meson.build"
    source.write_text(source.read_text().replace(f"version: '{VERSION}'", "version: '7.8.9'"))
    stale = run("--check", "--root", folder)
    expect(stale.returncode == 1 and "pyproject.toml" in stale.stdout, f"a stale version was not found:\n{stale.stdout}")
    run("--write", "--root", folder)
    written = run("--check", "--root", folder)
    expect(written.returncode == 0 and "7.8.9" in written.stdout, f"--write left another version:\n{written.stdout}")
    (folder / "pyproject.toml").write_text("")
    lost = run("--check", "--root", folder)
    expect(lost.returncode == 1 and "pyproject.toml" in lost.stdout, f"a line that is gone was not found:\n{lost.stdout}")
print(check.stdout, end="")
