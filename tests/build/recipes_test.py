# SPDX-License-Identifier: Apache-2.0
"""The conda recipe is YAML with the sections of a recipe, and flake.nix is a Nix expression. Neither is built.

Exits with 77 if PyYAML or nix-instantiate is missing, unless what needs neither fails.
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
FLAKE = ROOT / "flake.nix"
SKIPPED_STATUS = 77
HAS_YAML = importlib.util.find_spec("yaml") is not None
HAS_NIX = shutil.which("nix-instantiate") is not None
OWN_OPTIONS = ("buildtype", "python.purelibdir", "python.platlibdir")  # of Meson itself


def options_of(text):
    """The names of the options -DNAME=VALUE."""
    return {word.strip("\"'").removeprefix("-D").split("=")[0] for word in text.split() if word.strip("\"'").startswith("-D")}


@unittest.skipUnless(HAS_YAML, "no PyYAML")
class CondaRecipe(unittest.TestCase):
    def test_it_has_the_sections_of_a_recipe(self):
        import yaml

        recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
        self.assertEqual(list(recipe), ["context", "package", "source", "build", "requirements", "tests", "about"])
        self.assertEqual(recipe["package"], {"name": "cep", "version": "${{ version }}"})
        self.assertEqual((RECIPE.parent / recipe["source"]["path"]).resolve(), ROOT)
        self.assertTrue((ROOT / recipe["about"]["license_file"]).is_file())
        for commands in (recipe["build"]["script"], recipe["requirements"]["host"]):
            self.assertTrue(commands and all(isinstance(command, str) for command in commands))


@unittest.skipUnless(HAS_NIX, "no nix-instantiate")
class NixFlake(unittest.TestCase):
    def test_it_can_be_parsed(self):
        with tempfile.TemporaryDirectory() as home:  # not the user's store
            stores = {"HOME": home, "NIX_STATE_DIR": home, "NIX_STORE_DIR": home, "NIX_LOG_DIR": home, "NIX_CONF_DIR": home}
            command = [shutil.which("nix-instantiate"), "--parse", str(FLAKE)]
            done = subprocess.run(command, env=stores, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


class Options(unittest.TestCase):
    def test_the_recipes_set_options_that_the_build_has(self):
        known = (ROOT / "meson_options.txt").read_text(encoding="utf-8")
        for file in (RECIPE, FLAKE, ROOT / "debian" / "rules"):
            names = options_of(file.read_text(encoding="utf-8")) - {*OWN_OPTIONS, "optimization", "debug"}
            self.assertTrue(names, file)
            self.assertEqual([name for name in sorted(names) if f"option('{name}'" not in known], [], file)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    for _, reason in result.skipped:
        print(f"skipped: {reason}")
    sys.exit(1 if not result.wasSuccessful() else SKIPPED_STATUS if result.skipped else 0)
