#!/usr/bin/env python3
"""bench/check_accuracy.py on records as experiments leave them: what holds, what does not, what is
missing."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "check_accuracy.py"


class CheckAccuracy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.results = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def run_of(self, experiment, accuracies, seconds=1.0, done=True, **settings):
        runs = self.results / experiment / "runs"
        folder = runs / str(len(list(runs.glob("*"))))
        (folder / "result").mkdir(parents=True)
        record = {"settings": settings} | ({"result": {}} if done else {"failure": "exit code 1"})
        (folder / "run.json").write_text(json.dumps(record))
        (folder / "result" / "log").write_text(json.dumps([
            {"epoch": i + 1, "elapsed_time": (i + 1) * seconds, "validation/main/accuracy": value}
            for i, value in enumerate(accuracies)]))

    def check(self, name):
        done = subprocess.run([sys.executable, SCRIPT, "--results", self.results, name],
                              capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_last_five_epochs(self):
        self.run_of("mnist_scaling", [0.5] * 15 + [0.98, 0.981, 0.982, 0.98, 0.979], np="1", nodes="1")
        code, text = self.check("mnist_scaling")
        self.assertEqual(code, 0, text)
        self.assertIn("| 0.98 | 0.9804 | yes |", text)
        self.run_of("mnist_scaling", [0.99] * 15 + [0.97] * 5, np="2", nodes="1")
        code, text = self.check("mnist_scaling")
        self.assertEqual(code, 1)
        self.assertIn("mnist_scaling, np 2, nodes 1: mean of the last five of 20 epochs | 0.98 | 0.9700 "
                      "| NO |", text)

    def test_runs_that_are_short_failed_or_missing_do_not_hold(self):
        self.assertEqual(self.check("data_parallel")[0], 1)
        self.assertIn("there are no runs", self.check("data_parallel")[1])
        self.run_of("data_parallel", [0.99] * 20, devices="cpu:1")
        self.assertEqual(self.check("data_parallel")[0], 0)
        self.run_of("data_parallel", [0.99] * 20, done=False, devices="cpu:2")
        code, text = self.check("data_parallel")
        self.assertEqual(code, 1)
        self.assertIn("devices cpu:2: mean of the last five of 20 epochs | 0.98 | not measured | NO |",
                      text)
        self.run_of("data_parallel", [0.99] * 19, devices="cpu:3")
        code, text = self.check("data_parallel")
        self.assertEqual(code, 1)
        self.assertIn("not measured", text)

    def test_median_of_the_seeds(self):
        for processes in ["1", "2"]:
            for seed, better in [("0", 0.7), ("1", 0.83), ("2", 0.82)]:
                self.run_of("lenet", [0.9] * 8 + [0.6, better], np=processes, seed=seed)
        code, text = self.check("lenet")
        self.assertEqual(code, 0, text)
        self.assertEqual(text.count("| 0.82 | 0.8200 | yes |"), 2)

    def test_shortened_runs_are_no_claims(self):
        self.run_of("mnist_scaling", [0.99] * 20, np="1", nodes="1", epoch="20")
        self.run_of("mnist_scaling", [0.9], np="2", nodes="2", epoch="1")
        code, text = self.check("mnist_scaling")
        self.assertEqual(code, 0, text)
        self.assertNotIn("np 2", text)

    def test_the_best_of_four_learning_rates(self):
        for processes in ["1", "2", "4"]:
            for rate, best in [("0.1", 0.7), ("0.2", 0.83), ("0.4", 0.8)]:
                self.run_of("lenet_batch", [0.5] * 9 + [best], np=processes, lr=rate)
        self.assertIn("np 4: best epoch at the best of four learning rates | 0.65 | not measured | NO |",
                      self.check("lenet_batch")[1])
        for processes in ["1", "2", "4"]:
            self.run_of("lenet_batch", [0.5] * 10, np=processes, lr="0.8")
        code, text = self.check("lenet_batch")
        self.assertEqual(code, 0, text)
        self.assertEqual(text.count("| 0.8300 | yes |"), 3)

    def test_devices_of_unequal_speed(self):
        self.run_of("unequal_devices/both", [0.97] * 20, devices="cpu:2", work="1,2", split="auto")
        code, text = self.check("unequal_devices")
        self.assertEqual(code, 1)
        self.assertIn("work 1,2, split auto: mean of the last five of 20 epochs | 0.98 | 0.9700 | NO |",
                      text)

    def test_what_is_learnt_too_late_does_not_count(self):
        self.run_of("cnn10_subset", [0.5, 0.6], seconds=300, np="2", examples="10000")
        self.assertEqual(self.check("cnn10_subset")[0], 0)
        self.run_of("cnn10_subset", [0.5, 0.6], seconds=301, np="2", examples="10000")
        self.assertEqual(self.check("cnn10_subset")[0], 1)

    def test_the_lowest_of_repeated_runs(self):
        for last in [0.98, 0.976]:
            self.run_of("communicators", [0.9, 0.95, last], communicator="naive", nodes="1")
        self.run_of("communicators", [0.9, 0.95, 0.966], communicator="dummy", nodes="1")
        code, text = self.check("communicators")
        self.assertEqual(code, 0, text)
        self.assertIn("naive, nodes 1: epoch 3, lowest of the runs | 0.975 | 0.9760 | yes |", text)
        self.run_of("communicators", [0.9, 0.95, 0.966], communicator="naive", nodes="1")
        self.assertEqual(self.check("communicators")[0], 1)
        self.run_of("communicators", [0.9, 0.98], communicator="flat", nodes="2")
        self.assertIn("flat, nodes 2: epoch 3, lowest of the runs | 0.975 | not measured | NO |",
                      self.check("communicators")[1])

    def test_unknown_names(self):
        self.assertEqual(self.check("none")[0], 2)


if __name__ == "__main__":
    unittest.main()
