#!/usr/bin/env python3
"""check_symbols.py names what a library of NVIDIA's does not have.

  symbols_test.py LIBRARY   (libtasuki_cuda.so)
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Symbols(unittest.TestCase):
    def check(self, change):
        with tempfile.TemporaryDirectory() as folder:
            lists = pathlib.Path(shutil.copytree(HERE / "symbols", pathlib.Path(folder) / "symbols"))
            change(lists)
            done = subprocess.run([sys.executable, HERE / "check_symbols.py", self.library, lists],
                                  stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def test_accepts_the_lists(self):
        code, said = self.check(lambda lists: None)
        self.assertEqual(code, 0, said)
        self.assertIn(" functions, 0 of these lines", said)

    def test_names_what_is_missing(self):
        def change(lists):
            (nccl,) = lists.glob("nccl-*.txt")
            nccl.write_text(nccl.read_text().replace("ncclMemAlloc\n", ""))

        code, said = self.check(change)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"^nccl-2\.27\.\d+ does not have ncclMemAlloc\n")

    def test_refuses_to_compare_nothing(self):
        code, said = self.check(lambda lists: (lists / "cufft-1.txt").write_text("cufftExec\n"))
        self.assertEqual(code, 1, said)
        self.assertIn("needs no function cufft", said)


if __name__ == "__main__":
    Symbols.library = sys.argv.pop()
    unittest.main()
