#!/usr/bin/env python3
"""bench/articles.py on records as experiments leave them: rows of the articles and ours, failed
runs, the place of a table in a page; and the claims that are made from tables."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/articles.py"
sys.path.insert(0, str(SCRIPT.parent))
import claims_table  # noqa: E402
import comparison  # noqa: E402


class Articles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.results = pathlib.Path(self.folder.name, "results")
        self.page = pathlib.Path(self.folder.name, "page.md")

    def tearDown(self):
        self.folder.cleanup()

    def run_of(self, experiment, seconds=60.0, accuracies=(0.98,) * 20, failure=None, crowded=False,
               version="abc1234", **settings):
        folder = self.results / experiment / "runs" / str(len(list(
            (self.results / experiment).glob("runs/*"))))
        (folder / "result").mkdir(parents=True)
        record = {"settings": {"np": "1", "nodes": "1", **settings}}
        if failure:
            record["failure"] = failure
        else:
            record["result"] = {"seconds": seconds, "wall_seconds": seconds + 1,
                                "first_epoch_seconds": 5.0, "epoch_seconds": seconds / 20,
                                "step_seconds": seconds / 1000}
            record["origin"] = {"global_batch": 100.0, "oversubscribed": crowded,
                                "version": f"Tasuki 0.1.0 ({version}), oneDNN 2.6.3",
                                "machine": "2 cores of a CPU, Linux 6.1"}
        (folder / "run.json").write_text(json.dumps(record))
        (folder / "result" / "log").write_text(json.dumps(
            [{"epoch": i + 1, "iteration": 10 * (i + 1), "elapsed_time": 5.0 * (i + 1),
              "validation/main/accuracy": each} for i, each in enumerate(accuracies)]))

    def make(self, name):
        self.page.write_text(f"before\n<!-- bench/articles.py {name} -->\nold\n<!-- end -->\nafter\n")
        return subprocess.run([sys.executable, SCRIPT, "--tables-only", "--results", self.results,
                               "--page", self.page, name], capture_output=True, text=True)

    def table(self, name):
        done = self.make(name)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = self.page.read_text()
        self.assertNotIn("old", page)
        self.assertTrue(page.startswith("before\n<!--") and page.endswith("<!-- end -->\nafter\n"))
        return page

    def test_scaling(self):
        self.run_of("mnist_scaling/one_node", 80, epoch="20")
        self.run_of("mnist_scaling/one_node", 40, epoch="20", np="4", crowded=True)
        self.run_of("mnist_scaling/two_nodes", 60, epoch="20", np="2", nodes="2")
        self.run_of("mnist_scaling/two_nodes_1gbit", failure="timeout", epoch="20", np="2", nodes="2")
        self.run_of("mnist_scaling/two_nodes_1gbit", 160, epoch="20", np="4", nodes="2")
        self.run_of("mnist_scaling/two_nodes_100mbit", 20, epoch="1", np="2", nodes="2",
                    accuracies=[0.9])
        page = self.table("mnist")
        self.assertIn("| article | 1 | 1 |  | CPU | 2670.08 | 1.00 | 100 % |  |\n", page)
        self.assertIn("| article | 4 | 2 |  | GPU | 252.48 | 0.32 | 8 % |  |\n", page)
        self.assertEqual(page.count("| article |"), 13)
        self.assertIn("| ours | 4* | 1 |  | core | 40.00 | 2.00 | 50 % | 0.9800 |\n", page)
        self.assertIn("| ours | 2 | 2 | 1 Gbit/s | core | **failed** |  |  |  |\n", page)
        self.assertIn("| ours, 1 epoch x 20 | 2 | 2 | 100 Mbit/s | core | 400.00 | 0.20 | 10 % |  |\n",
                      page)
        self.assertRegex(page, r"`build/apps/tasuki-experiment experiments/mnist_scaling.ini` at abc1234, "
                         r"\d{4}-\d\d-\d\d, 2 cores of a CPU, Linux 6.1; 6 minutes.")

    def test_rows_of_several_versions(self):
        for devices, version in [("cpu:1", "abc1234"), ("cpu:2", "def5678")]:
            self.run_of("data_parallel", 60, version=version, devices=devices)
        done = self.make("data_parallel")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rows of one version on one machine", done.stderr)
        self.assertIn("abc1234 on 2 cores of a CPU, Linux 6.1, def5678 on", done.stderr)

    def test_equal_devices(self):
        self.run_of("data_parallel", 60, devices="cpu:1")
        self.run_of("data_parallel", 40, devices="cpu:2")
        self.assertIn("| two cores | 40.0 | 1.50 | 2.00 | 0.9800 |\n", self.table("data_parallel"))

    def test_seeds(self):
        for np, seconds in [("1", 60), ("2", 30)]:
            for seed, last in [("0", 0.81), ("1", 0.83), ("2", 0.84)]:
                self.run_of("lenet", seconds, [0.5] * 8 + [last, 0.8], np=np, seed=seed)
        page = self.table("lenet")
        self.assertIn("| article | 2 GPUs | 0.82 | 3.8 | 0.97 |\n", page)
        self.assertIn("| ours | 2 processes | 0.8300 | 1.50 | 2.00 |\n", page)
        self.assertIn("| 9 | 0.8300 | 0.8300 |\n", page)

    def test_batches_and_learning_rates(self):
        for np in ["1", "2", "4"]:
            for rate, accuracy in [("0.1", 0.7), ("0.8", 0.75), ("0.2", 0.8)]:
                self.run_of("lenet_batch", 30, [0.5, accuracy], np=np, lr=rate, crowded=np == "4")
        page = self.table("lenet_batch")
        self.assertIn("| processes | batch | rate 0.1 | rate 0.2 | rate 0.8 | s / epoch |\n", page)
        self.assertIn("| 4* | 1024 | 0.7000 | **0.8000** | 0.7500 | 1.50 |\n", page)

    def test_devices_of_unequal_speed(self):
        for work, seconds in [("1", 66), ("2", 132)]:
            self.run_of("unequal_devices/alone", seconds, work=work)
        for split, seconds in [("even", 66), ("auto", 44)]:
            self.run_of("unequal_devices/both", seconds, split=split)
        page = self.table("unequal_devices")
        self.assertIn("| article | both GPUs | 73.795 | 1.16 | 3.54 | 0.9821 |\n", page)
        self.assertIn("| ours | both, `--split auto` | 44.0 | 1.50 | 2.20 | 0.9800 |\n", page)

    def test_runs_without_memory(self):
        for name in ["cnn10_devices", "wrn_28_10"]:
            self.run_of(f"{name}/cpu", failure="out of memory, exit code 69: cpu is out of memory; the "
                        "largest batch that fits is --batchsize 700", **{"global-batch": "2048"})
            self.run_of(f"{name}/cpu", 90, **{"global-batch": "128"})
        self.assertIn("| article | TPU v2 | 2048 | 220.55 | 20.45 | 0:37:33 | 0.1758 |\n",
                      self.table("wrn_28_10"))
        page = self.table("cnn10_devices")
        self.assertIn("| article | 1 GPU | 2048 | **out of memory** |  |  |  |\n", page)
        self.assertIn("| ours | 1 process | 128 | 5.00 | 4.50 | 0:01:30 | 0.9800 |\n", page)
        self.assertIn("| ours | 1 process | 2048 | **out of memory** (700 a rank fits) |", page)

    def test_loads_of_devices(self):
        self.run_of("vgg_small", 60, np="2", batchsize="64", **{"loader-threads": "1"})
        (self.results / "vgg_small/table.md").write_text(
            "## vgg_small, CIFAR-10\n\n"
            "| | processes | loader-threads | batchsize | time [s] |\n|-|-|-|-|-|\n"
            "| 1 | 2 | 1 | 64 | 60.00 |\n\n"
            "| row | rank | load [%] | memory [MB] | input wait [ms] | step [ms] |\n"
            "|-|-|-|-|-|-|\n| 1 | 0 | 99 | 410 | 0.11 | 60.0 |\n| 1 | 1 | 98 | 400 | 0.20 | 60.0 |\n")
        page = self.table("vgg_small")
        self.assertIn("| article | 4 GPUs | 64 | 6 | 2682.6, 2475.5, 2452.7, 2500.2, 2853.9 | 2500.2 |",
                      page)
        self.assertIn("| article, input made by each | 4 GPUs | 64 | 6 | 37, 26, 27, 34 |  |  |\n", page)
        self.assertIn("| ours | 2 processes | 64 | 1 | " + ", ".join(["200.0"] * 19) + " | 1666.7 |",
                      page)
        self.assertIn("| ours | 2 | 64 | 1 | 99, 98 | 410, 400 | 0.11, 0.20 |\n", page)

    def test_communicators(self):
        for nodes in ["1", "2"]:
            for name, seconds in [("naive", [6, 9, 8]), ("flat", [4, 4, 5]), ("hierarchical", [2]),
                                  ("two_dimensional", [2]), ("dummy", [1])]:
                for each in seconds:
                    self.run_of("communicators", each, communicator=name, nodes=nodes)
        page = self.table("communicators")
        self.assertIn("| 2 | `flat` | 4.00 | 2.00 | 0.9800 |\n", page)

    def test_runs_that_are_missing(self):
        for name in ["mnist", "communicators", "unequal_devices", "data_parallel", "vgg_small", "lenet",
                     "lenet_batch", "cnn10_devices", "wrn_28_10"]:
            done = self.make(name)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"^articles.py: {name}: expected runs in .*; "
                             f"bench/articles.py {name} makes it\n$")
        self.run_of("unequal_devices/alone", 66, work="1")
        self.run_of("unequal_devices/both", 66, split="even")
        self.assertIn("unequal_devices: expected a run with work = 2;",
                      self.make("unequal_devices").stderr)


class Claims(unittest.TestCase):
    def test_are_those_of_the_tables(self):
        page = (ROOT / "docs/results.md").read_text()
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as copy:
            copy.write(page)
            copy.flush()
            done = subprocess.run([sys.executable, SCRIPT, "--page", copy.name, "claims",
                                   "processors"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(pathlib.Path(copy.name).read_text(), page,
                             "run bench/articles.py claims processors")

    def test_are_of_the_processor_with_the_larger_ratio(self):
        """Whichever folder it is in."""
        def claimed():
            return {each.what: (each.ratio, each.processor) for each in speed.compared()}

        speed = claims_table.speed
        before = claimed()
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(speed, "RESULTS", folder):
            results = ROOT / "bench/results"
            swaps = {"amd": "intel", "intel": "amd"}
            for there in speed.PROCESSORS:
                here = swaps.get(there, there)
                shutil.copytree(results / there, pathlib.Path(folder, here))
            swapped = claimed()
        names = {"AMD": "Intel", "Intel": "AMD"}
        renamed = {what: (ratio, names.get(processor, processor))
                   for what, (ratio, processor) in before.items()}
        self.assertEqual({what: ratio for what, (ratio, _) in before.items()},
                         {what: ratio for what, (ratio, _) in swapped.items()})
        # All but those with equal ratios on both.
        alike = [what for what in renamed if renamed[what] == swapped[what]]
        self.assertGreaterEqual(len(alike), len(before) - 1, swapped)

    def test_name_command_date_and_machine(self):
        for claim in claims_table.claims():
            self.assertRegex(claim.origin.date, r"^\d{4}-\d\d-\d\d$", claim)
            self.assertRegex(claim.origin.machine, r"^[^;]{10,300}$", claim)
            self.assertRegex(claim.figure, r"\d", claim)
            program = next(word for word in claim.origin.command.split() if "=" not in word)
            self.assertTrue(program.startswith("build/") or (ROOT / program).exists(), claim)

    def test_origins(self):
        with tempfile.NamedTemporaryFile("w", suffix=".md") as page:
            page.write("# One\n`a` without\n## Two\n\n`b\n--c` at 12ab, 2026-01-02, A CPU, 2 cores, "
                       "Linux\n6.1.2-x. More. `d` at 34, 2026-01-03, B; 5 minutes.\n")
            page.flush()
            self.assertEqual(claims_table.origin_of(page.name, "One"),
                             ("b --c", "2026-01-02", "A CPU, 2 cores, Linux 6.1.2-x"))
            with self.assertRaises(SystemExit):
                claims_table.origin_of(page.name, "Three")

    def test_origins_of_reports(self):
        """The head names the libraries of the programs that ran, and of their peers."""
        with tempfile.TemporaryDirectory() as folder:
            def prints(name, text):
                file = pathlib.Path(folder, name)
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"#!/bin/sh\ncat << END\n{text}\nEND\n")
                file.chmod(0o755)
                return file

            prints("apps/train_mnist", "train_mnist (Tasuki) 0.1.0 (12ab)\ncpu: oneDNN 2.6.3 (OMP)\n"
                   "MPI: Open MPI v4.1.4")
            peers = {"PyTorch 2.15.0+cu132": prints("with", "  - Intel(R) MKL-DNN v3.13.3 (Git Hash b3)"),
                     "PyTorch 2.1": prints("without", "  - USE_MKLDNN=OFF")}
            build = comparison.build_folder(folder)
            for given, libraries in [
                    ([], ""), ([build], ", oneDNN 2.6.3 (OMP), Open MPI v4.1.4"),
                    ([build, peers], ", oneDNN 2.6.3 (OMP), Open MPI v4.1.4, PyTorch 2.15.0+cu132 with "
                     "oneDNN 3.13.3, PyTorch 2.1 without oneDNN")]:
                with mock.patch.object(sys, "argv", ["here/threads.py", "--rounds", "3"]):
                    head = comparison.heading("A title", *given).replace(" with changes,", ",")
                page = pathlib.Path(folder, "page.md")
                page.write_text(head + " Turns: 3; medians.\n")
                origin = claims_table.origin_of(page, "A title")
                self.assertEqual(origin.command, "bench/threads.py --rounds 3")
                self.assertEqual(origin.machine, comparison.machine() + libraries)

    def test_readme_has_the_ratios(self):
        text = " ".join((ROOT / "README.md").read_text().split())
        found = {}
        for each in claims_table.speed.compared():
            found[each.what.split(",")[0]] = each.said
            found.setdefault("first", each.said)
        nets = sorted(found[name] for name in ["LeNet", "cnn10", "VGG-16", "wide ResNet 28-10"])
        self.assertIn(f"wall-clock time divided by PyTorch's is {found['first']} for an epoch of "
                      f"the MNIST perceptron in one single-threaded process, {found['perceptron']} "
                      f"in two, {found['transformer']} for a transformer and {found['DCGAN']} for "
                      f"a DCGAN. Its CPU time divided by PyTorch's is {nets[0]} to {nets[-1]} for "
                      f"four convolutional networks and {found['LSTM']} for an LSTM", text)
        every = sorted(found.values())
        self.assertIn(f"Tasuki takes {every[0]} to {every[-1]} of PyTorch's time", text)


if __name__ == "__main__":
    unittest.main()
