#!/usr/bin/env python3
"""bench/gpu/compare_gpu.py: what PyTorch is asked for, to be compared with."""
import argparse
import pathlib
import sys
import tempfile
import time
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

    def test_a_measurement_has_its_limit_and_leaves_nothing_behind(self):
        self.assertEqual([compare_gpu.most_seconds(who) for who in ("Tasuki graph", "compile")],
                         [60, 120])
        # A worker that ignores the end of its parent, as torch.compile has them.
        with tempfile.TemporaryDirectory() as folder:
            noted = pathlib.Path(folder) / "worker"
            said = compare_gpu.run(["sh", "-c", f"sleep 1000 & echo $! > {noted}; wait"], 1)
            self.assertEqual(said, "no result in 1 s")
            worker = int(noted.read_text())
            for _ in range(100):
                if not is_running(worker):
                    break
                time.sleep(0.1)
            self.assertFalse(is_running(worker))

    def test_the_bound_is_of_products_and_the_update(self):
        # 6 x 128 x 1,794,000 operations at 989 TFLOP/s; 30 bytes of 1,797,010 parameters at 3350 GB/s.
        seconds = compare_gpu.bound("NVIDIA H100 80GB HBM3", ("mlp", 128, "bf16"), 1_797_010)
        self.assertAlmostEqual(seconds * 1e6, 1.3931 + 16.0926, places=3)
        self.assertIsNone(compare_gpu.bound("A GPU", ("mlp", 128, "bf16"), 1))

    def test_ratios_are_judged_by_the_aims(self):
        verdict = compare_gpu.verdict
        self.assertEqual(verdict(("mlp", 100, "fp32"), (5.1, 1.29)), "5 x: met; 1.3 x: missed")
        for case in (("cnn10", 128, "bf16"), ("cnn10", 1024, "bf16"), ("wrn_28_10", 128, "bf16")):
            self.assertEqual([verdict(case, (9, ratio)) for ratio in (1.0, 0.99, None)],
                             ["1.0 x: met", "1.0 x: missed", "1.0 x: -"])
        self.assertEqual(verdict(("gpt", 64, "bf16"), (9, 0.8)), "0.8 x: met")
        self.assertEqual(verdict(("lstm", 64, "bf16"), (9, 9)), "")

    def test_the_limits_of_each_measured_precision_are_named(self):
        self.assertEqual(compare_gpu.limits_in_words("NVIDIA H200", {"bf16", "fp32"}),
                         "limits of NVIDIA H200 by its data sheet: 67 TFLOP/s in fp32, 989 TFLOP/s in bf16, 4800 GB/s")
        self.assertIn("limits of A GPU are not known", compare_gpu.limits_in_words("A GPU", {"bf16"}))

    def test_what_is_worth_most_is_measured_first(self):
        found = compare_gpu.schedule(compare_gpu.all_cases(compare_gpu.PRECISIONS), compare_gpu.MODES)
        self.assertEqual(len(found), 10 * 3 * 5 + 2)
        self.assertEqual(len(set(found)), len(found))
        recorded = ("Tasuki graph", "graph")
        perceptron = ("mlp", 100, "fp32")
        aims = [perceptron, ("cnn10", 128, "bf16"), ("cnn10", 1024, "bf16"), ("gpt", 64, "bf16"),
                ("wrn_28_10", 128, "bf16")]
        further = [("gpt2_small", 8, "bf16"), ("lstm", 64, "bf16"), ("dcgan", 128, "bf16")]
        self.assertEqual(found[:3], [(perceptron, who) for who in (*recorded, "eager")])
        self.assertEqual(found[3:11], [(case, who) for case in aims[1:] for who in recorded])
        self.assertEqual(found[11:17], [(case, who) for case in further for who in recorded])
        self.assertEqual(found[17:19], [(case, compare_gpu.OWN) for case in (aims[3], further[0])])
        self.assertEqual(found[19:24], [(case, "compile") for case in aims])
        self.assertEqual({case for case, _ in found[24:39]}, {*aims, *further})
        self.assertFalse({case for case, _ in found[39:-25]} & {*aims, *further})
        self.assertEqual({who for _, who in found[-25:]}, {"compile"})

    def test_without_pytorch_only_ours_are_measured(self):
        self.assertEqual(compare_gpu.schedule([("mlp", 100, "fp32")], []),
                         [(("mlp", 100, "fp32"), who) for who in ("Tasuki graph", "Tasuki eager")])

    def test_transformers_are_measured_with_our_attention_too(self):
        found = compare_gpu.schedule([("gpt", 64, "bf16"), ("gpt", 64, "fp32"), ("mlp", 100, "bf16")], ["graph"])
        self.assertEqual([case for case, who in found if who == compare_gpu.OWN], [("gpt", 64, "bf16")])
        self.assertEqual(self.command("gpt", "bf16", compare_gpu.OWN)[:2], ["env", "TASUKI_GPU_ATTENTION=own"])

    def test_cases_can_be_chosen(self):
        self.assertEqual(compare_gpu.case_of("mlp:2:bf16"), ("mlp", 2, "bf16"))
        for wrong in ("mlp:2", "mlp:0:bf16", "mlp:two:bf16", "vgg:2:bf16", "mlp:2:fp64"):
            with self.subTest(wrong), self.assertRaises(argparse.ArgumentTypeError):
                compare_gpu.case_of(wrong)


def is_running(process):
    """One that has ended may wait for its parent's notice."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


unittest.main()
