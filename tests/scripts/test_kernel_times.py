#!/usr/bin/env python3
"""bench/gpu/kernel_times.py: the table of a step's kernels, from what a program's trace has."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu" / "kernel_times.py"
sys.path.append(str(SCRIPT.parent))
import kernel_times


class KernelTimes(unittest.TestCase):
    def test_a_step_is_what_repeats_at_the_end(self):
        step = ["a", "b", "update", "update"]  # two networks
        kernels = [(i, i + 1, name) for i, name in enumerate(["trial", "trial", *step, *step, *step])]
        self.assertEqual([name for _, _, name in kernel_times.last_step(kernels, 3)], step)
        self.assertEqual(kernel_times.last_step(kernels, 4), kernels)

    def test_names_are_shortened(self):
        self.assertEqual(kernel_times.short("void tasuki::kernels::(anonymous namespace)::add<float, (int)2>(Array, "
                                            "void (*)(int))"), "add<float, (int)2>")

    def test_time_between_kernels_is_counted_once(self):
        said = kernel_times.table([(0, 4000, "a"), (2000, 5000, "b"), (8000, 10000, "a")], 1)
        self.assertIn("| `a` | 2 | 6.0 | 60.0% |", said)
        self.assertIn("| 1 others | 1 | 3.0 | 30.0% |", said)
        self.assertIn("| between kernels |  | 3.0 | 30.0% |", said)
        self.assertIn("| **the step** | 3 | 10.0 | 100.0% |", said)

    def test_programs_are_run_with_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "gpu_step"
            run = lambda: subprocess.run([sys.executable, SCRIPT, program, "mlp", "100", "--graph"],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

            def write(body):
                program.write_text(f"#!/bin/sh\n{body}\n")
                os.chmod(program, 0o755)

            write("exit 0")
            ran = run()
            self.assertEqual(ran.returncode, 77)
            self.assertIn("there is no libtasuki_kernel_trace.so", ran.stdout)
            (pathlib.Path(folder) / "libtasuki_kernel_trace.so").touch()
            write('[ -n "$CUDA_INJECTION64_PATH" ] && [ "$*" = "mlp 100 --steps 8 --graph" ] &&\n'
                  'for i in 1 2 3 4 5 6 7 8; do printf "${i}0000 ${i}1000 k(int)\\n${i}1000 ${i}3000 m(int)\\n"; done > "$TASUKI_KERNEL_TRACE"')
            ran = run()
            self.assertEqual(ran.returncode, 0, ran.stdout)
            self.assertIn("mlp 100, recorded:", ran.stdout)
            self.assertIn("| `m` | 1 | 2.0 | 66.7% |", ran.stdout)
            write('echo "kernel_trace: libcupti.so.13: cannot open shared object file"')
            self.assertEqual(run().returncode, 77)
            write('echo "no GPU" >&2; exit 69')
            ran = run()
            self.assertEqual(ran.returncode, 1)
            self.assertIn("exit code 69: no GPU", ran.stdout)


if __name__ == "__main__":
    unittest.main()
