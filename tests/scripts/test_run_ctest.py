#!/usr/bin/env python3
"""scripts/run_ctest.py: what skipped itself is listed with its reasons, ctest's summary stays last."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "run_ctest.py"

# As GoogleTest prints it: one test of two skips itself, with a reason on two lines.
PARTLY = r"""[ RUN      ] Monitor.OfAGpu
/source/monitor_test.cpp:110: Skipped
this machine has
no GPU

[  SKIPPED ] Monitor.OfAGpu (0 ms)
[ RUN      ] Monitor.OfTheCpu
[       OK ] Monitor.OfTheCpu (3 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Monitor.OfAGpu
"""
# In colours, as under mpirun.
PARAMETERS = """\x1b[0;32m[ RUN      ] \x1b[mTypes/Gpu.Adds/0
/source/gpu_test.cpp:10: Skipped
no CUDA
\x1b[0;32m[  SKIPPED ] \x1b[mTypes/Gpu.Adds/0, where GetParam() = "fp32" (1 ms)
"""


class RunCtest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.build = pathlib.Path(self.folder.name)
        self.tests = []

    def tearDown(self):
        self.folder.cleanup()

    def add(self, name, output, code=0):
        (self.build / f"{name}.txt").write_text(output)
        self.tests.append(f'add_test({name} bash -c "cat {name}.txt; exit {code}")\n'
                          f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)\n")

    def run_ctest(self, *arguments):
        (self.build / "CTestTestfile.cmake").write_text("".join(self.tests))
        done = subprocess.run([sys.executable, SCRIPT, "--test-dir", self.build, *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_skips_are_listed_by_reason_before_the_summary(self):
        self.add("monitor", PARTLY)
        self.add("gpu", PARAMETERS, 77)
        self.add("plot", "looking\nskipped: gnuplot is missing\n", 77)
        self.add("plain", "fine\n")
        code, text = self.run_ctest()
        self.assertEqual(code, 0)
        listed = ("\nSkipped, and why:\n"
                  "  this machine has no GPU\n      monitor: Monitor.OfAGpu\n"
                  "  no CUDA\n      gpu: Types/Gpu.Adds/0\n"
                  "  gnuplot is missing\n      plot\n")
        self.assertIn(listed, text)
        summary = "100% tests passed, 0 tests failed out of 4"
        self.assertGreater(text.index(summary), text.index(listed))
        self.assertIn("(Skipped)", text[text.index(summary):])

    def test_failures_keep_their_exit_code_and_output(self):
        self.add("monitor", PARTLY)
        self.add("broken", "out of luck\n", 1)
        code, text = self.run_ctest("--output-on-failure")
        self.assertEqual(code, 8)
        self.assertIn("out of luck", text)
        self.assertIn("Monitor.OfAGpu", text)
        self.assertGreater(text.index("broken (Failed)"), text.index("Skipped, and why:"))

    def test_nothing_is_added_where_nothing_was_skipped(self):
        self.add("plain", "fine\n")
        self.assertNotIn("Skipped", self.run_ctest()[1])
        self.assertIn("Total Tests: 1", self.run_ctest("-N")[1])


if __name__ == "__main__":
    unittest.main()
