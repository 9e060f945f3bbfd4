#!/usr/bin/env python3
"""Measures with train_mnist what is said of the results of training, which does not depend on speed.

1. Every communicator against naive: losses of the first iterations, with MomentumSGD and with Adam.
2. --shards: the same with 1, 2, 3 and 4 ranks on one global batch.
3. Memory: the peak of a rank is at most a tenth above what --dry-run plans for it.

Prints Markdown; exit code 1 where something exceeds its bound. Other work on the machine does no harm.

    bench/check_claims.py --data ~/.cache/tasuki/mnist [--iterations 100] [--epochs 2] [flags of train_mnist]
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

COMMUNICATORS = ["flat", "single_node", "hierarchical", "two_dimensional", "auto"]
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Claims:
    def __init__(self, options):
        self.options = options
        self.all_hold = True

    def train(self, ranks, *flags):
        """The log of a run and what it printed."""
        with tempfile.TemporaryDirectory() as out:
            command = ["mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none",
                       self.options.build / "apps/train_mnist", "--data", self.options.data,
                       "--threads", 1, "--out", out, *self.options.flags, *flags]
            command = [str(word) for word in command]
            done = subprocess.run(command, capture_output=True, text=True,
                                  env={**os.environ, **ENVIRONMENT})
            if done.returncode != 0:
                sys.exit(f"check_claims.py: {shlex.join(command)} failed:\n{done.stderr}")
            log = pathlib.Path(out, "log")
            return json.loads(log.read_text()) if log.exists() else [], done.stdout

    def losses(self, ranks, optimizer, *flags):
        log, _ = self.train(ranks, "--optimizer", optimizer, "--log-every", 1, "--max-iterations",
                            self.options.iterations, "--test-examples", 100, *flags)
        return [entry["main/loss"] for entry in log]

    def row(self, what, found, bound, unit=""):
        holds = found <= bound
        self.all_hold = self.all_hold and holds
        print(f"| {what} | {found:.3g}{unit} | {bound:.3g}{unit} | {'yes' if holds else 'NO'} |",
              flush=True)

    def compare(self, name, optimizer, found, expected):
        def largest(count):
            return max(abs(a - b) / b for a, b in zip(found[:count], expected[:count]))

        count = len(expected)
        assert len(found) == count
        if optimizer == "momentum_sgd":
            self.row(f"{name}, {optimizer}, each of {count} losses", largest(count), 1e-4)
            return
        self.row(f"{name}, {optimizer}, each of 10 losses", largest(10), 1e-3)
        means = [sum(losses) / count for losses in (found, expected)]
        self.row(f"{name}, {optimizer}, mean of {count} losses",
                 abs(means[0] - means[1]) / means[1], 5e-3)

    def communicators(self):
        heading("Communicators against naive, 4 ranks, relative difference")
        for optimizer in ["momentum_sgd", "adam"]:
            naive = self.losses(4, optimizer, "--communicator", "naive")
            for name in COMMUNICATORS:
                self.compare(name, optimizer, self.losses(4, optimizer, "--communicator", name),
                             naive)

    def shards(self):
        heading("--shards 12, global batch 1,200, relative difference to one rank")
        for optimizer in ["momentum_sgd", "adam"]:
            one = None
            for ranks in [1, 2, 3, 4]:
                found = self.losses(ranks, optimizer, "--shards", 12, "--batchsize", 1200 // ranks)
                if one is None:
                    one = found
                else:
                    self.compare(f"{ranks} ranks", optimizer, found, one)
        if self.options.epochs == 0:
            return
        epochs = {ranks: self.train(ranks, "--shards", 12, "--batchsize", 1200 // ranks,
                                    "--epoch", self.options.epochs)[0] for ranks in [1, 2, 3, 4]}
        for ranks in [2, 3, 4]:
            for found, expected in zip(epochs[ranks], epochs[1]):
                difference = abs(found["main/loss"] - expected["main/loss"]) / expected["main/loss"]
                self.row(f"{ranks} ranks, adam, mean of epoch {expected['epoch']}", difference, 2e-3)

    def memory(self):
        heading("Memory of a rank against a dry run's plan and a tenth")
        for ranks in [1, 2]:
            flags = ["--max-iterations", self.options.iterations]
            peak = megabytes(r"at most ([\d.]+) MB of memory per rank", self.train(ranks, *flags)[1])
            plan = megabytes(r"([\d.]+) MB in all", self.train(ranks, "--dry-run", *flags)[1])
            self.row("1 rank" if ranks == 1 else f"{ranks} ranks", peak, 1.1 * plan, " MB")


def megabytes(pattern, said):
    found = re.search(pattern, said)
    if not found:
        sys.exit(f"check_claims.py: expected {pattern} in what train_mnist prints, found\n{said}")
    return float(found[1])


def heading(text):
    print(f"\n### {text}\n\n| what | found | bound | holds |\n|---|---|---|---|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with MNIST's files")
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "build")
    parser.add_argument("--iterations", type=int, default=100,
                        help="of every run, at least 10 (default: 100)")
    parser.add_argument("--epochs", type=int, default=2,
                        help="whose means are compared, too (default: 2; 0: none)")
    options, options.flags = parser.parse_known_args()
    if options.iterations < 10:
        parser.error("--iterations: at least 10")
    claims = Claims(options)
    claims.communicators()
    claims.shards()
    claims.memory()
    return 0 if claims.all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
