#!/usr/bin/env python3
"""#include "..." names a file of the checkout, and no folder of the library includes what it may not.

    test_includes.py BUILD
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts/figures")]
import folders  # noqa: E402
from compile_commands import read_commands  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
USERS = ("examples/", "tests/install/")  # which include <tasuki/...>


def sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cpp", "*.hpp", "*.cu", "*.cuh"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = [file for file in listed if (ROOT / file).exists()]
    assert len(found) > 1000, found
    return found


def includes_of(file):
    return re.findall(r'^\s*#\s*include "([^"]+)"', (ROOT / file).read_text(errors="replace"),
                      re.MULTILINE)

MODULES = {"cuda", "hdf5"}  # folders of libraries of their own, which see more than their layer


class Paths(unittest.TestCase):
    def test_are_files_of_the_checkout(self):
        for file in sources():
            for name in includes_of(file):
                own = (ROOT / file).parent / name
                place = own if file.startswith(USERS) or "/" not in name else ROOT / name
                self.assertTrue(place.exists() and ".." not in name, f"{file} includes {name}")


def floors_broken(includes, floors):
    """The includes of a file in a folder of `floors`, lowest first, that name a higher one."""
    return [f"{file} includes {name}" for file, names in includes.items() for name in names
            if (own := str(pathlib.PurePosixPath(file).parent)) in floors
            and (other := str(pathlib.PurePosixPath(name).parent)) in floors
            and floors.index(other) > floors.index(own)]


class Program(unittest.TestCase):
    """Within program/, which one library is made of."""

    FLOORS = ["program/flags", "program/start", "program/data", "program/report", "program"]

    def test_folders_do_not_include_what_is_above_them(self):
        files = [file for file in sources() if file.startswith("program/")]
        self.assertEqual({str(pathlib.PurePosixPath(file).parent) for file in files}, set(self.FLOORS))
        self.assertEqual(floors_broken({file: includes_of(file) for file in files}, self.FLOORS), [])

    def test_that_the_check_finds_a_folder_that_includes_its_parent(self):
        planted = {"program/start/a.cpp": ["program/flags/b.hpp", "program/c.hpp"]}
        self.assertEqual(floors_broken(planted, self.FLOORS), ["program/start/a.cpp includes program/c.hpp"])


class Layers(unittest.TestCase):
    """Each layer's own compile command, for a file that includes a header of each folder it may see."""

    @classmethod
    def setUpClass(cls):
        cls.graph = folders.uses()
        cls.layers = [name for name in cls.graph if name not in ("apps", "tools")]
        cls.commands = {}
        for entry in read_commands(BUILD):
            file = pathlib.Path(entry["file"])
            if not file.is_relative_to(ROOT):
                continue
            folder = file.relative_to(ROOT).parts[0]
            if folder in cls.layers and not MODULES & set(file.parts):
                cls.commands.setdefault(folder, entry)

    def compile(self, layer, text):
        entry = self.commands[layer]
        words = shlex.split(entry["command"])
        words = words[:words.index("-o")]
        while not re.search(r"(\+\+|clang|gcc)[\w.-]*$", words[0]):
            words.pop(0)  # ccache
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
            source.write(text)
            source.flush()
            return subprocess.run([*words, "-fsyntax-only", source.name], cwd=entry["directory"],
                                  capture_output=True, text=True)

    def header_of(self, folder):
        """A small one: of those that include the least."""
        headers = [file.relative_to(ROOT).as_posix() for file in (ROOT / folder).rglob("*.hpp")
                   if not MODULES & set(file.parts)]
        return min(headers, key=lambda file: (len(includes_of(file)), file))

    def test_include_what_they_use_and_nothing_else(self):
        self.assertEqual(set(self.commands), set(self.layers))
        for layer in self.layers:
            allowed = folders.reach(self.graph, layer) | {layer}
            text = ""
            for other in self.graph:
                header = self.header_of(other)
                if other in allowed:
                    text += f'#include "{header}"\n'
                else:
                    text += f'#if __has_include("{header}")\n#error {layer} includes {header}\n#endif\n'
            done = self.compile(layer, text)
            self.assertEqual(done.returncode, 0, f"{layer}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
