#!/usr/bin/env python3
"""docs/functions.md names every function of Variables that public headers declare, and docs/layers.md
every module and model; both name headers that are there, and nothing that is gone."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/install"))
import public_headers  # noqa: E402

# A function at the beginning of a line, which returns what a graph is made of; `operator`s stand
# in the page as their signs.
FUNCTION = re.compile(r"^(?:Variable|std::vector<Variable>|RecurrentResult) ([a-z]\w*)\(", re.MULTILINE)
MODEL = re.compile(r"^std::unique_ptr<\w+> ([a-z]\w*)\(", re.MULTILINE)
MODULE = re.compile(r"^class (\w+)(?: final)? : public (\w+)", re.MULTILINE)
# Sums of one shape, for the library's own use.
PARTS = {"mapped"}
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Za-z_]\w+")


def public_in(*folders):
    return {header: (ROOT / header).read_text() for header in sorted(public_headers.reached(ROOT))
            if str(pathlib.PurePosixPath(header).parent) in folders}


def declared(pattern, *folders):
    return {name: header for header, text in public_in(*folders).items()
            for name in pattern.findall(text)}


def modules(*folders):
    """Classes that Module is a base of, with their headers."""
    bases, headers = {"Module": None}, {"Module": "nn/module.hpp"}
    for header, text in public_in("nn", "parallel", "models").items():
        for name, base in MODULE.findall(text):
            bases[name], headers[name] = base, header

    def is_module(name):
        return name == "Module" or (name in bases and is_module(bases[name]))
    return {name: header for name, header in headers.items()
            if is_module(name) and str(pathlib.PurePosixPath(header).parent) in folders}


def rows(page):
    """Of its tables: (names in the first column, headers in the last)."""
    for line in (ROOT / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| `"):
            yield (set(NAME.findall(" ".join(CODE.findall(cells[0])))),
                   set(re.findall(r"[\w/]+\.hpp", cells[-1])))


class ReferencePages(unittest.TestCase):
    def check_page(self, page, expected):
        named = {}
        for names, headers in rows(page):
            for name in names:
                named.setdefault(name, set()).update(headers)
        text = " ".join(CODE.findall((ROOT / page).read_text()))
        missing = sorted(name for name in expected if not re.search(rf"\b{name}\b", text))
        self.assertEqual(missing, [], f"{page} does not name them")
        for name, header in expected.items():
            if name in named:
                self.assertIn(pathlib.PurePosixPath(header).name,
                              {pathlib.PurePosixPath(each).name for each in named[name]},
                              f"{page} names another header for {name}")
        there = {path.name for path in ROOT.glob("*/**/*.hpp")}
        for _, headers in rows(page):
            self.assertLessEqual({pathlib.PurePosixPath(each).name for each in headers}, there)

    def test_functions(self):
        expected = declared(FUNCTION, "nn/functions", "parallel/functions")
        self.assertGreater(len(expected), 60)
        self.assertIn("conv2d", expected)
        for part in PARTS:
            expected.pop(part, None)
        self.check_page("docs/functions.md", expected)

    def test_layers(self):
        expected = {**modules("nn", "parallel", "models"), **declared(MODEL, "models")}
        self.assertGreater(len(expected), 40)
        self.assertEqual(expected["GroupNorm"], "nn/normalization.hpp")
        self.check_page("docs/layers.md", expected)


if __name__ == "__main__":
    unittest.main()
