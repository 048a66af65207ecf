# SPDX-License-Identifier: Apache-2.0
"""tools/release.sh on a copy of the repository, in which running the tests and building the wheel take no time.

Exits with 77 if this is no git checkout.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED_STATUS = 77
WHEEL = 'mkdir -p dist && echo "a wheel" >"dist/cep-$(python3 tools/version.py)-py3-none-any.whl"\n'
COUNT = 'echo tested >>"$TEST_RELEASE_LOG"\n'
IDENTITY = ("-c", "user.name=tester", "-c", "user.email=tester@invalid", "-c", "commit.gpgsign=false")


def run(*command, cwd, **variables):
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=cwd, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def git(*words, cwd):
    status, output = run("git", *IDENTITY, *words, cwd=cwd)
    if status != 0:
        sys.exit(output)
    return output


def commit(root):
    git("add", "--all", cwd=root)
    git("commit", "--quiet", "-m", "A change", cwd=root)


def make_repository(root):
    """A repository of the files of this checkout, as they are; git need not know the checkout's past."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in set(listed.split("\0")):
        if name and (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    (root / "tools" / "test.sh").write_text(COUNT)
    (root / "tools" / "wheel.sh").write_text(WHEEL)
    git("init", "--quiet", cwd=root)
    commit(root)
    git("branch", "as-it-was", cwd=root)


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.log = pathlib.Path(scratch.name) / "log"
        cls.root = pathlib.Path(scratch.name) / "cep"
        cls.root.mkdir()
        make_repository(cls.root)
        cls.version = run(sys.executable, "tools/version.py", cwd=cls.root)[1].strip()

    def setUp(self):
        git("reset", "--quiet", "--hard", "as-it-was", cwd=self.root)
        git("clean", "--quiet", "-xfd", cwd=self.root)
        for tag in self.tags():
            git("tag", "--delete", tag, cwd=self.root)
        self.log.write_text("")

    def tags(self):
        return git("tag", cwd=self.root).split()

    def release(self, *options):
        """The status and the output of the script, and how often it has run the tests."""
        variables = {f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        status, output = run("sh", "tools/release.sh", *options, cwd=self.root, TEST_RELEASE_LOG=str(self.log), **variables)
        return status, output, self.log.read_text().count("tested")

    def products(self):
        return sorted(path.name for path in (self.root / "dist").glob("*"))

    def expect_refusal(self, words, *options):
        status, output, tested = self.release(*(options or ("--tag", self.version)))
        self.assertEqual((status, tested, self.products(), self.tags()), (1, 0, [], []), output)
        self.assertIn(words, output)

    def test_archive_wheel_checksums_and_tag(self):
        status, output, tested = self.release("--tag", self.version)
        self.assertEqual((status, tested), (0, 1), output)
        name = f"cep-{self.version}"
        self.assertEqual(self.products(), [f"{name}-py3-none-any.whl", f"{name}.sha256", f"{name}.tar.xz"])
        self.assertEqual(run("sha256sum", "--check", "--quiet", f"{name}.sha256", cwd=self.root / "dist"), (0, ""))
        self.assertEqual(self.tags(), [f"v{self.version}"])
        listed = run("tar", "-tf", f"dist/{name}.tar.xz", cwd=self.root)[1].splitlines()
        self.assertEqual([file for file in ("meson.build", "LICENSE", "CHANGELOG.md") if f"{name}/{file}" not in listed], [])
        self.assertIn(f"v{self.version} exists", self.release(self.version)[1])

    def test_a_dry_run_changes_nothing(self):
        status, output, tested = self.release("--dry-run", "--tag", self.version)
        self.assertEqual((status, tested, self.products(), self.tags()), (0, 0, [], []), output)
        self.assertIn("would run: sh tools/test.sh --all", output)

    def test_no_release_if_a_test_fails(self):
        (self.root / "tools" / "test.sh").write_text("exit 1\n")
        commit(self.root)
        self.expect_refusal("tools/test.sh")

    def test_no_release_of_changed_files(self):
        (self.root / "README.md").write_text("changed")
        self.expect_refusal("README.md")

    def test_no_release_of_another_version(self):
        self.expect_refusal(f"meson.build has version {self.version}", "77.0.0")

    def test_no_release_if_a_file_or_the_changelog_has_another_version(self):
        for name, version in (("pyproject.toml", '"{}"'), ("CHANGELOG.md", "## [{}]")):
            file = self.root / name
            file.write_text(file.read_text().replace(version.format(self.version), version.format("77.0.0")))
            commit(self.root)
            self.expect_refusal(name)
            git("reset", "--quiet", "--hard", "as-it-was", cwd=self.root)

    def test_wrong_arguments(self):
        for options in ((), ("v1",), (self.version, self.version), ("--push", self.version)):
            self.assertEqual(self.release(*options)[0], 2, options)


if __name__ == "__main__":
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        print("skipped: no git checkout")
        sys.exit(SKIPPED_STATUS)
    unittest.main()
