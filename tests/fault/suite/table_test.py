#!/usr/bin/env python3
"""The table of the fault suite keeps what a run does not measure.

    table_test.py RELIABILITY.md
"""
import pathlib
import sys
import tempfile
import unittest

import cases  # noqa: F401
from registry import CASES, Most
from table import HEAD, NoTable, Table, cell_of

DOCUMENT = pathlib.Path(sys.argv.pop())


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "table.md")

    def test_the_document_is_read_and_written_as_it_is(self):
        text = DOCUMENT.read_text()
        self.file.write_text(text)
        Table(self.file, "none").write()
        self.assertEqual(self.file.read_text(), text)

    def test_every_case_has_a_row_in_the_document(self):
        table = Table(DOCUMENT)
        for case in CASES.values():
            self.assertIn(case.number, table.rows)
            self.assertEqual(table.rows[case.number][1], case.fault.replace("|", "\\|"))
            self.assertEqual(table.rows[case.number][2], case.expected.replace("|", "\\|"))

    def test_cells_of_other_places_and_runs_stay(self):
        self.file.write_text(f"before\n{HEAD}\n| 99 | a | b | 1/1 (run 3) | – | – |\n\n"
                             "- Run 2: nobody refers to it\n- Run 3: some day\n\nafter\n")
        for settings, nodes in (("one", 1), ("two", 2)):
            table = Table(self.file, settings)
            table.update(CASES["no-output"], {nodes: f"1/1, {settings}"})
            table.write()
        lines = self.file.read_text().splitlines()
        self.assertEqual((lines[0], lines[-2:]), ("before", ["", "after"]))
        row = next(line for line in lines if line.startswith("| 28 |"))
        self.assertIn("| 1/1, one (run 4) | 1/1, two (run 5) |", row)
        self.assertIn("(\\| head -1)", row)
        self.assertIn("| 99 | a | b | 1/1 (run 3) | – | – |", lines)
        self.assertEqual([line for line in lines if line.startswith("- Run")],
                         ["- Run 3: some day", "- Run 4: one", "- Run 5: two"])

    def test_cells_of_a_case_that_has_changed_go(self):
        case = CASES["no-output"]
        self.file.write_text(f"{HEAD}\n| 28 | another fault | b | 1/1 (run 1) | – | – |\n\n"
                             "- Run 1: one\n")
        table = Table(self.file, "two")
        table.update(case, {})
        table.write()
        self.assertNotIn("(run 1)", self.file.read_text())
        self.assertNotIn("- Run 1", self.file.read_text())

    def test_what_others_write_meanwhile_stays(self):
        self.file.write_text(f"{HEAD}\n\n")
        first, second = Table(self.file, "one"), Table(self.file, "two")
        first.update(CASES["no-output"], {1: "1/1"})
        first.write()
        second.update(CASES["no-output"], {2: "2/2"})
        second.write()
        self.file.write_text("new words\n" + self.file.read_text())
        first.update(CASES["throws"], {1: "3/3"})
        first.write()
        text = self.file.read_text()
        self.assertTrue(text.startswith("new words\n"))
        for cell in ("| 1/1 (run 1) | 2/2 (run 2) |", "| 3/3 (run 1) |"):
            self.assertIn(cell, text)

    def test_other_files_are_refused(self):
        self.file.write_text("a letter\n")
        with self.assertRaises(NoTable):
            Table(self.file)

    def test_a_cell_has_the_largest_figures(self):
        self.assertEqual(cell_of([0.5, 0.731, 0.2], 4), "3/4, at most 0.74 s")
        self.assertEqual(cell_of([Most(3, "steps"), Most(12, "steps")], 2),
                         "2/2, at most 12 steps")
        self.assertEqual(cell_of(["same bits", "same bits"], 2), "2/2, same bits")
        self.assertEqual(cell_of([], 1), "0/1")


unittest.main()
