#!/usr/bin/env python3
"""Time of a gradient exchange against its size, for each communicator: one node, and two nodes over
links of 1 Gbit/s (network namespaces; needs what tests/cluster/run.sh needs).

    bench/exchange_times.py [--rounds 3] [--out bench/results/exchange.md]

build/apps/tasuki-bench-allreduce times each exchange and checks each sum. A figure is the median over the
rounds of its medians, in microseconds. Gradients lie in memory of Communicator::allocate, as in
training. `naive` and `flat` send the same here, as there is one array.

Then steps of the perceptron with each communicator, its exchange after the backward pass
(--exchange whole): what a step waits for it, and the megabytes that the first of two nodes sends,
the difference between two runs, so that the start does not count.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import HERE, MPI_ENVIRONMENT, build_folder, heading, publish

ROOT = HERE.parent
SENT = "/sys/class/net/eth0/statistics/tx_bytes"
PLACES = {
    "One node, 2 ranks": (["mpirun", "-np", "2", "--bind-to", "none"],
                          ["naive", "single_node", "hierarchical", "two_dimensional"], 4, 1 << 26),
    "Two nodes of 2 ranks, links of 1 Gbit/s": (
        ["tests/cluster/run.sh", "--slots", "2,2", "--rate", "1gbit", "--"],
        ["naive", "hierarchical", "two_dimensional"], 1024, 1 << 24),
}


def output_of(command, options):
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=options.timeout,
                          env={**os.environ, **MPI_ENVIRONMENT})
    if done.returncode != 0:
        sys.exit(f"exchange_times.py: {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(launcher, communicators, least, most, options):
    """{(communicator, bytes): median in microseconds} of one run."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "table.json")
        command = [*launcher, options.build.resolve() / "apps/tasuki-bench-allreduce", "--communicator",
                   ",".join(communicators), "--min", least, "--max", most, "--iterations",
                   options.iterations, "--json", file]
        output_of(command, options)
        rows = json.loads(file.read_text())["rows"]
    if any(row["wrong"] for row in rows):
        sys.exit("exchange_times.py: there are wrong sums")
    return {(row["communicator"], row["bytes"]): row["median_seconds"] * 1e6 for row in rows
            if row["memory"] == "allocated" or row["communicator"] == "MPI_Allreduce"}


def run_of_steps(communicator, launcher, steps, options):
    """Milliseconds of a step and of its exchange, means over the ranks, and the bytes that the
    first node has sent (0: it has no network)."""
    count = (f'before=$(cat {SENT} 2>/dev/null || echo 0); "$@"; rc=$?; '
             f'[ "$OMPI_COMM_WORLD_RANK" != 0 ] || '
             f'echo "sent $(($(cat {SENT} 2>/dev/null || echo 0) - before))"; exit $rc')
    with tempfile.TemporaryDirectory() as folder:
        command = [*launcher, "bash", "-c", count, "count", options.build.resolve() /
                   "apps/train_mnist", "--communicator", communicator, "--exchange", "whole",
                   "--threads", "1", "--max-iterations", steps, "--test-examples", "2", "--quiet",
                   "--checkpoint-every", "none", "--out", f"{folder}/out"]
        said = output_of(command, options)
        ranks = json.loads(pathlib.Path(folder, "out/step_times.json").read_text())
    parts = ["input", "forward", "backward", "exchange", "update"]
    step = statistics.mean(sum(rank[part] for part in parts) for rank in ranks) * 1e3
    exchange = statistics.mean(rank["exchange"] for rank in ranks) * 1e3
    return step, exchange, int(said.rsplit("sent ", 1)[1])


def step_with(communicator, launcher, steps, options):
    """Milliseconds of a step and of its exchange, and the megabytes that are sent in it."""
    step, exchange, all_sent = run_of_steps(communicator, launcher, 2 * steps, options)
    _, _, half_sent = run_of_steps(communicator, launcher, steps, options)
    return step, exchange, (all_sent - half_sent) / steps * 1e-6


def steps_text(title, launcher, communicators, steps, options):
    has_network = "cluster" in launcher[0]
    text = f"\n## {title}\n\n| communicator | exchange [ms] | step [ms] |"
    text += " MB sent in a step |\n|-|-|-|-|\n" if has_network else "\n|-|-|-|\n"
    for name in communicators:
        runs = [step_with(name, launcher, steps, options) for _ in range(options.rounds)]
        step, exchange, sent = (statistics.median(column) for column in zip(*runs))
        text += f"| {name} | {exchange:.2f} | {step:.2f} |"
        text += f" {sent:.1f} |\n" if has_network else "\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=build_folder, default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a program")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    begin = time.monotonic()
    top = heading("Time of a gradient exchange against its size", options.build) + (
        f" Medians of {options.rounds} runs of {options.iterations} exchanges, microseconds. On two "
        f"nodes, four ranks share {os.cpu_count()} cores.\n")
    text = ""
    for title, (launcher, communicators, least, most) in PLACES.items():
        runs = [measure(launcher, communicators, least, most, options)
                for _ in range(options.rounds)]
        names = ["MPI_Allreduce", *communicators]
        sizes = sorted({size for _, size in runs[0]})
        text += f"\n## {title}\n\n| bytes | {' | '.join(names)} |\n|{'-|' * (len(names) + 1)}\n"
        for size in sizes:
            cells = [f"{statistics.median(run[name, size] for run in runs):.1f}" for name in names]
            text += f"| {size} | {' | '.join(cells)} |\n"
    kinds = ["naive", "flat", "hierarchical", "two_dimensional"]
    for (title, (launcher, *_)), names, steps in zip(
            PLACES.items(), [[*kinds, "single_node"], kinds], [150, 20]):
        text += steps_text(f"A step of the perceptron, {title[0].lower()}{title[1:]}", launcher, names,
                           steps, options)
    minutes = (time.monotonic() - begin) / 60
    publish(f"{top}\nAll of it took {minutes:.0f} minutes.\n{text}", options.out)


if __name__ == "__main__":
    main()
