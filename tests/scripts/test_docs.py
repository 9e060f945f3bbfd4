#!/usr/bin/env python3
"""The site that the target `docs` makes: Doxygen has no warnings, links lead somewhere in it, and it has the public
headers of all folders and nothing private."""
import html.parser
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILTER = ROOT / "docs/doxygen_filter.py"


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken_links(folder):
    pages = {file.name: Page(file.read_text()) for file in folder.glob("*.html")}
    for name, page in pages.items():
        for link in page.links:
            target = urllib.parse.urlsplit(link)
            if target.scheme or link == "#nested-classes":  # Doxygen's own, of classes with private ones
                continue
            path = urllib.parse.unquote(target.path) or name
            if not (folder / path).is_file():
                yield f"{name}: {link}: there is no such file"
            elif target.fragment and path in pages and target.fragment not in pages[path].names:
                yield f"{name}: {link}: {path} has no such place"


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(suffix=" with a space")
        cls.addClassCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        headers = work / "include/tasuki"
        subprocess.run(["cmake", f"-DSOURCE={ROOT}", f"-DDESTINATION={headers}",
                        "-P", ROOT / "cmake/TasukiPublicHeaders.cmake"], check=True)
        cls.done = subprocess.run(["cmake", f"-DSOURCE={ROOT}", f"-DHEADERS={headers}",
                                   f"-DSITE={work / 'docs'}", "-DDOXYGEN=doxygen",
                                   "-P", ROOT / "cmake/TasukiDocs.cmake"],
                                  capture_output=True, text=True)
        cls.html = work / "docs/html"

    def test_has_no_warnings(self):
        self.assertEqual((self.done.returncode, self.done.stdout + self.done.stderr), (0, ""))

    def test_links_lead_somewhere(self):
        broken = sorted(set(broken_links(self.html)))
        self.assertEqual(broken, [], "\n" + "\n".join(broken[:30]))

    def test_has_pages_and_public_headers(self):
        for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
            name = "index" if page.name == "README.md" else f"docs_{page.stem}"
            self.assertTrue((self.html / f"{name}.html").is_file(), name)
        self.assertIn("Quickstart", (self.html / "index.html").read_text())
        files = (self.html / "files.html").read_text()
        for folder in ("core", "tensor", "nn", "models", "communicator", "parallel", "job", "optimizer",
                       "dataset", "saving", "training", "program"):
            self.assertIn(f">{folder}<", files)
        for name in "classCommunicator", "classTrainer", "structTrainingProgram", "classOptimizer":
            name = name.replace("struct", "structtasuki_1_1").replace("class", "classtasuki_1_1")
            self.assertTrue((self.html / f"{name}.html").is_file(), name)
        self.assertIn("Initialises MPI, calls", (self.html / "run__job_8hpp.html").read_text())
        self.assertEqual([], [file.name for file in self.html.glob("*.html")
                              if "watchdog" in file.name or "_1_1detail_1_1" in file.name])


class Filter(unittest.TestCase):
    def filtered(self, name, text):
        with tempfile.TemporaryDirectory(dir=ROOT, prefix="build-docs-test-") as folder:
            file = pathlib.Path(folder, name)
            file.write_text(text)
            return subprocess.run([FILTER, file], check=True, capture_output=True, text=True).stdout

    def test_comments_belong_to_what_they_are_about(self):
        self.assertEqual(
            self.filtered("a.hpp", "// A file.\n#pragma once\n// A <name>,\n//\n// and @more.\nint f();\n"
                          "  // --- heading ---\n  int a;   // of a,\n           // and more\n  // B.\n  int b;\n"
                          "}  // namespace\n"),
            "/// A file.\n/// @file\n/// A &lt;name&gt;,\n///\n/// and \\@more.\nint f();\n"
            "\n  int a;   ///< of a,\n           ///< and more\n  /// B.\n  int b;\n}  // namespace\n")

    def test_links_have_names(self):
        text = self.filtered("a.md", "# A\n\n## B, `c`\n[a](#b-c) [b](../README.md) `[c](d)`\n"
                             "[e](../docs/training.md#data) [f](../examples) [g](https://h)\n"
                             "```\n# [i](j)\n```\n")
        prefix = text.split("{#")[1].split("}")[0]
        self.assertEqual(text, f"# A {{#{prefix}}}\n\n## B, `c` {{#{prefix}_b-c}}\n"
                         f"[a](@ref {prefix}_b-c) [b](@ref index) `[c](d)`\n"
                         "[e](@ref docs_training_data) f (`examples`) [g](https://h)\n```\n# [i](j)\n```\n")


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("skipped: doxygen is missing (package doxygen)")
        sys.exit(77)
    unittest.main()
