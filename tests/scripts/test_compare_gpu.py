#!/usr/bin/env python3
"""bench/gpu/compare_gpu.py: what PyTorch is asked for, to be compared with."""
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"))
import compare_gpu


class CompareGpu(unittest.TestCase):
    def command(self, model, precision, who):
        return compare_gpu.command("ours", 3, (model, 128, precision), who)

    def test_pytorchs_images_lie_as_ours(self):
        for mode in compare_gpu.MODES:
            for precision, is_last in (("fp32", False), ("tf32", True), ("bf16", True)):
                with self.subTest(mode=mode, precision=precision):
                    command = self.command("cnn10", precision, mode)
                    self.assertIn("peer_gpu_step.py", str(command[1]))
                    self.assertEqual("--channels-last" in command, is_last)
                    self.assertNotIn("--channels-last", self.command("mlp", precision, mode))

    def test_our_program_chooses_the_order(self):
        self.assertEqual(self.command("cnn10", "tf32", "Tasuki graph"),
                         ["ours", "cnn10", 128, "tf32", "--seconds", 3, "--graph"])


unittest.main()
