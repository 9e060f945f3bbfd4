#!/usr/bin/env python3
"""Checks the accuracies that experiments have recorded against what is claimed of them.

1. mnist_scaling, data_parallel, unequal_devices: the mean of the last five of 20 epochs.
2. lenet: the better of epochs 9 and 10, the median of seeds 0, 1 and 2, for each number of
   processes.
3. lenet_batch: the best epoch at the best of four learning rates, for each number of processes.
   A batch k times as large means a k-th of the steps, so that less is expected of it.
4. cnn10_subset: what 10,000 images teach within ten minutes.
5. communicators: the third epoch, the lowest of the repeated runs. `dummy` exchanges nothing, so
   each process learns from its half of the images.

Reads the folders that `build/apps/tasuki-experiment experiments/NAME.ini` leaves in results/. Prints
Markdown; exit code 1 where a claim does not hold or was not measured.

    bench/check_accuracy.py [--results results] [NAME ...]
"""
import argparse
import pathlib
import statistics
import sys

from experiment_runs import ACCURACY, runs_of

# Each claim: rows of (what, bound, found), where found is None without a whole measurement.


def last_five(runs, names):
    for run in runs:
        values = run.accuracies()
        whole = len(values) == 20
        section = run.folder.parents[1].name
        yield (f"{section}, {run.text(*names)}: mean of the last five of 20 epochs", 0.98,
               statistics.mean(values[-5:]) if whole else None)


def mnist_scaling(runs):
    whole = (run for run in runs if run.settings.get("epoch", "20") == "20")
    return last_five(whole, ["np", "nodes"])


def data_parallel(runs):
    return last_five(runs, ["devices"])


def unequal_devices(runs):
    return last_five(runs, ["devices", "work", "split"])


def lenet_batch(runs):
    for processes, bound in [("1", 0.82), ("2", 0.75), ("4", 0.65)]:
        best = [max(run.accuracies()) for run in runs
                if run.settings.get("np") == processes and len(run.epochs) >= 10]
        yield (f"np {processes}: best epoch at the best of four learning rates", bound,
               max(best) if len(best) == 4 else None)


def lenet(runs):
    for processes in ["1", "2"]:
        best = {run.settings.get("seed"): max(run.accuracies()[8:10]) for run in runs
                if run.settings.get("np") == processes and len(run.epochs) >= 10}
        whole = {"0", "1", "2"} <= best.keys()
        yield (f"np {processes}: better of epochs 9 and 10, median of seeds 0, 1, 2", 0.82,
               statistics.median(best[seed] for seed in ["0", "1", "2"]) if whole else None)


def cnn10_subset(runs):
    for run in runs:
        within = [entry[ACCURACY] for entry in run.epochs if entry["elapsed_time"] <= 600]
        yield (f"{run.text('np', 'examples')}: best within 600 s", 0.55,
               max(within) if within else None)


def communicators(runs):
    third = {}
    for run in runs:
        value = run.accuracies()[2] if len(run.epochs) >= 3 else None
        third.setdefault((run.settings["communicator"], run.settings["nodes"]), []).append(value)
    for (communicator, nodes), values in third.items():
        yield (f"{communicator}, nodes {nodes}: epoch 3, lowest of the runs",
               0.965 if communicator == "dummy" else 0.975,
               None if None in values else min(values))


CLAIMS = {claim.__name__: claim for claim in [mnist_scaling, data_parallel, unequal_devices, lenet,
                                              lenet_batch, cnn10_subset, communicators]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"of {', '.join(CLAIMS)} (default: all)")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"),
                        help="folder of the experiments' folders (default: results)")
    options = parser.parse_args()
    for name in options.names:
        if name not in CLAIMS:
            parser.error(f"expected one of {', '.join(CLAIMS)}, found '{name}'")
    all_hold = True
    print("| experiment | claim | at least | measured | holds |\n|---|---|---|---|---|")
    for name in options.names or CLAIMS:
        rows = list(CLAIMS[name](runs_of(options.results / name)))
        for what, bound, found in rows or [("there are no runs", 0, None)]:
            holds = found is not None and found >= bound
            all_hold = all_hold and holds
            measured = "not measured" if found is None else f"{found:.4f}"
            print(f"| {name} | {what} | {bound} | {measured} | {'yes' if holds else 'NO'} |")
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
