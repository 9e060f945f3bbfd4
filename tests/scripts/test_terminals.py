#!/usr/bin/env python3
"""What programs print on a terminal of 80 columns: no line is longer, and one that cannot move its
cursor gets neither control codes nor colours.

    test_terminals.py BUILD
"""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

COLUMNS = 80
# Erasing below the cursor and moving up, by the progress bar.
BAR = re.compile(r"\x1b\[(?:J|4A)")
LONG_NAME = "a_name_of_a_class_that_is_long"


def on_terminal(words, cwd, kind="xterm", shows_errors=False):
    """(exit code, standard output) of a program on a terminal of $TERM `kind`, which may be None.

    Warnings and errors, on standard error, are single lines and go into a file, or are shown, too."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 50, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("TERM", "COLUMNS")}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if kind is not None:
        environment["TERM"] = kind
    with open(cwd / "errors", "wb") as errors:
        job = subprocess.Popen(words, cwd=cwd, env=environment, stdin=its, stdout=its,
                               stderr=its if shows_errors else errors, start_new_session=True)
    os.close(its)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    return job.wait(), said.decode().replace("\r\n", "\n")


class Terminals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name)
        cls.apps = BUILD / "apps"

    def check_lines(self, text):
        for line in BAR.sub("", text).splitlines():
            # A word, such as a path, is not broken.
            if " " in line.strip():
                self.assertLess(len(line), COLUMNS, f"{line}\n{text}")

    def run_here(self, *words, kind="xterm"):
        code, said = on_terminal([self.apps / words[0], *words[1:]], self.work, kind)
        self.assertEqual(code, 0, said + (self.work / "errors").read_text())
        self.check_lines(said)
        return said

    def train(self, out, **others):
        return self.run_here("tasuki-run", "-np", "2", self.apps / "train_mnist",
                             "--data", "/usr/share/datasets/fashion-mnist", "--examples", "2000",
                             "--test-examples", "500", "--unit", "30",
                             "--epoch", "2", "--out", out, **others)

    def test_training(self):
        said = self.train("result")
        self.assertIn("\x1b[4A", said)  # the bar
        self.assertRegex(said, r"(?m)^Optimizer: Adam.*,\n  \S")
        self.assertRegex(BAR.sub("", said), r"(?m)^2 +\d\.\d+ +\d\.\d+ +0\.\d+ ")
        self.assertRegex(said, r"(?m)^rank +input ")
        for kind in "dumb", None:
            self.assertNotIn("\x1b", self.train("dumb", kind=kind))

    def test_restart(self):
        """tasuki-run's own lines come between those of the job."""
        program = self.work / "fails"
        program.write_text("#!/bin/sh\nexit 70\n")
        program.chmod(0o755)
        for kind, is_moved in ("xterm", True), ("dumb", False), (None, False):
            code, said = on_terminal([self.apps / "tasuki-run", "-np", "1", "--max-restarts", "1", program],
                                     self.work, kind, shows_errors=True)
            self.assertEqual(code, 70, said)
            self.assertIn("tasuki-run: ", said)
            self.assertIn("70", said)
            self.assertEqual("\x1b" in said, is_moved, said)

    def test_dry_run(self):
        self.run_here("train_mnist", "--data", "/usr/share/datasets/fashion-mnist", "--dry-run")

    def test_help(self):
        for program in sorted(self.apps.iterdir()):
            if not program.is_file() or not os.access(program, os.X_OK):
                continue
            for asked in [], ["all"], ["format"]:
                code, said = on_terminal([program, "--help", *asked], self.work)
                errors = (self.work / "errors").read_text()
                if asked == ["format"] and code == 64:
                    self.assertIn("no flag mentions 'format'", errors)
                    continue
                self.assertEqual(code, 0, said + errors)
                # Commands stay whole, to be copied.
                self.check_lines(re.sub(r"usage: .*\n.*\n", "", said))
                if not asked:
                    self.assertLessEqual(said.count("\n"), 40, said)
                    self.assertNotIn(" ...\n", said, "a summary has no room")

    def test_predictions(self):
        self.train("trained")
        self.run_here("tasuki-predict", "trained", "--examples", "3")
        (self.work / "names").write_text("".join(f"{LONG_NAME}_{i}\n" for i in range(10)))
        said = self.run_here("tasuki-predict", "trained", "--examples", "3", "--top", "8",
                             "--classes-file", "names")
        self.assertRegex(said, rf"(?m)^label( +\d)+\n0 {LONG_NAME}_0( +\d)+$")

    def test_simulation(self):
        said = self.run_here("tasuki-simulate", "--forward-ms", "3000.5", "--backward-ms", "60000", "--update-ms",
                             "10", "--gradient-mb", "1000", "--ranks", "1,2,16384", "--batch", "10000")
        self.assertRegex(said, r"(?m)^16384 16384 ")

    def test_experiment(self):
        (self.work / "grid.ini").write_text(
            "program = train_mnist\ntitle = A grid\nnp = 1, 2\ncommunicator = naive, hierarchical\n"
            "data = /usr/share/datasets/fashion-mnist\nexamples = 400\ntest-examples = 100\nepoch = 2\n"
            "unit = 10\nbatchsize = 50\nlauncher = mpirun --oversubscribe --bind-to none -np {np}\n")
        code, said = on_terminal([self.apps / "tasuki-experiment", "grid.ini"], self.work)
        self.assertEqual(code, 0, said + (self.work / "errors").read_text())
        # Commands stay whole, to be copied.
        self.check_lines(re.sub(r"(?m)^\d\. `.*`\n", "", said))
        self.assertRegex(said, r"(?m)^2 +1 +hierarchical ")
        self.assertRegex(said, r"(?m)^1\. `mpirun .*`$")
        self.assertRegex((self.work / "results/grid/table.md").read_text(), r"(?m)^\| 2 \| 1 \| hierarchical ")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
