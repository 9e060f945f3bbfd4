#!/usr/bin/env python3
"""scripts/make_figures.sh: docs/images has figures of the tables as they are, every figure can be
drawn, is well-formed, and has colours for dark pages."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the figures have only if they have their data.
PARTS = {
    "overview": ["rank 0"], "folders": ["training/", "apps/"],
    "speed": ["LSTM, step", " ms, 0."],
    "speedup": ["one machine", "two nodes, 100 Mbit/s"], "accuracy": ["2 processes"],
    "exchange": ["single_node", "64 MiB"], "exchange_nodes": ["hierarchical", "4 MiB"],
}


def make_figures(*words):
    return subprocess.run([ROOT / "scripts/make_figures.sh", *words], capture_output=True, text=True)


class Figures(unittest.TestCase):
    def test_are_of_the_tables(self):
        done = make_figures("--check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_are_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            done = make_figures("--to", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            drawn = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual(sorted(done.stdout.split()), [str(file) for file in drawn])
            for file in drawn:
                self.assertTrue((ROOT / "docs/images" / file.name).exists(), file.name)
                text = file.read_text()
                self.assertTrue(ElementTree.fromstring(text).tag.endswith("svg"))
                self.assertIn("prefers-color-scheme: dark", text)
                self.assertNotIn("gnuplot", text.lower().replace("gnuplot_", ""))
            for name, parts in PARTS.items():
                text = (pathlib.Path(folder) / f"{name}.svg").read_text()
                for part in parts:
                    self.assertIn(part, text, name)
            file = drawn[0]
            file.write_text("<svg/>")
            stale = make_figures("--check", "--to", folder)
            self.assertEqual(stale.returncode, 1)
            self.assertIn(f"run scripts/make_figures.sh {file.stem}\n", stale.stderr)

    def test_have_names(self):
        done = make_figures("sped")
        self.assertEqual(done.returncode, 64)
        self.assertIn("there is no figure sped; did you mean speed?", done.stderr)


if __name__ == "__main__":
    for tool, package in [("gnuplot", "gnuplot-nox"), ("dot", "graphviz")]:
        if not shutil.which(tool):
            print(f"skipped: {tool} is missing (package {package})")
            sys.exit(77)
    unittest.main()
