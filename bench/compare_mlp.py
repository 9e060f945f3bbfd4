#!/usr/bin/env python3
"""train_mnist against PyTorch on the same MLP, data and cores, in one run.

Programs take turns (A B A B ...), each pinned to as many cores as it has ranks, one thread per rank.
Seconds per epoch include evaluating the test images, on both sides; the first epoch of every run is
left out. Next to them stands the floor: the matrix products that an epoch needs and Adam's memory
traffic, timed alone in the same turns (bench_mlp_step), by as many processes as there are ranks.
With several ranks, train_mnist is also timed with weights that each rank has for itself.
Prints Markdown; --out writes it to a file too.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

from comparison import (DTYPE_FLAGS, HERE, MPI_ENVIRONMENT, contenders, heading, parser_for, publish,
                        ratios, torches)


def run(command, ranks):
    """Standard output of a command pinned to cores 0 .. ranks-1."""
    pinned = ["taskset", "-c", f"0-{ranks - 1}"] + [str(part) for part in command]
    done = subprocess.run(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **MPI_ENVIRONMENT, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"compare_mlp.py: {shlex.join(pinned)} failed:\n{done.stderr}")
    return done.stdout


def epochs_of_torch(python, options, ranks, flags):
    out = run([python, HERE / "peer_mlp.py", "--data", options.data, "--ranks", ranks, "--epochs",
               options.epochs + 1, "--adam", options.adam, *flags], ranks)
    epochs = [json.loads(line) for line in out.splitlines()]
    return [epoch["seconds"] for epoch in epochs[1:]], epochs[-1]["validation_accuracy"]


def epochs_of_tasuki(options, ranks, flags):
    with tempfile.TemporaryDirectory() as out:
        launcher = ["mpirun", "-np", ranks, "--bind-to", "none"] if ranks > 1 else []
        run(launcher + [options.build / "apps/train_mnist", "--data", options.data, "--epoch",
                        options.epochs + 1, "--threads", 1, "--out", out] + flags + options.flags, ranks)
        log = json.loads((pathlib.Path(out) / "log").read_text())
    ends = [entry["elapsed_time"] for entry in log]
    seconds = [after - before for before, after in zip(ends, ends[1:])]
    return seconds, log[-1]["validation/main/accuracy"]


def floor_of_epoch(options, ranks):
    """Seconds per epoch of the work that cannot be left out; as many processes as ranks, at once."""
    command = [options.build / "bench/bench_mlp_step", str(options.floor_steps), "1"]
    processes = [subprocess.Popen(["taskset", "-c", str(core)] + command, text=True,
                                  stdout=subprocess.PIPE) for core in range(ranks)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"compare_mlp.py: {command[0]} failed")
    return statistics.mean(floor_from(output, ranks) for output in outputs)


def floor_from(output, ranks):
    # "  l1 forward      1436.1    1501.2 ...": a name, best and median microseconds.
    rows = re.findall(r"^  (\S.*?)  +([\d.]+) +([\d.]+)", output, re.MULTILINE)
    median = {name: float(microseconds) * 1e-6 for name, _, microseconds in rows}
    step = median["sum of the products"] + median["Adam's memory traffic"]
    forward = sum(median[f"l{layer} forward"] for layer in (1, 2, 3))
    return 600 / ranks * step + 100 / ranks * forward


def compare(options, ranks):
    measures = contenders(
        options, lambda python, flags: lambda: epochs_of_torch(python, options, ranks, flags),
        lambda dtype: lambda: epochs_of_tasuki(options, ranks, DTYPE_FLAGS[dtype]))
    if ranks > 1:
        private = ["--node-weights", "private"]
        measures["Tasuki " + " ".join(private)] = lambda: epochs_of_tasuki(options, ranks, private)
    seconds, accuracy, floors = {name: [] for name in measures}, {}, []
    for turn in range(options.rounds):
        floors.append(floor_of_epoch(options, ranks))
        for name, measure in measures.items():
            times, accuracy[name] = measure()
            seconds[name] += times
            print(f"turn {turn + 1}: {name} {' '.join(f'{t:.2f}' for t in times)}", file=sys.stderr)

    floor = statistics.median(floors)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    text = (f"## {ranks} rank{'s' if ranks > 1 else ''} x 1 thread"
            f"{' (PyTorch: DistributedDataParallel over gloo)' if ranks > 1 else ''}\n\n"
            "| | s/epoch | min..max | times the floor | test accuracy |\n|-|-|-|-|-|\n")
    for name, times in seconds.items():
        text += (f"| {name} | {median[name]:.2f} | {min(times):.2f}..{max(times):.2f} | "
                 f"{median[name] / floor:.2f} | {accuracy[name]:.4f} |\n")
    return (text + f"| floor | {floor:.2f} | {min(floors):.2f}..{max(floors):.2f} | 1 | |\n"
            + ratios(median))


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--epochs", type=int, default=3, help="timed ones in each turn")
    parser.add_argument("--floor-steps", type=int, default=200, help="timed for the floor")
    parser.add_argument("--adam", choices=["default", "fused"], default="default",
                        help="PyTorch's implementation of Adam")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[],
                        help="further flags of train_mnist; must come last")
    options = parser.parse_args()

    text = heading("MLP 784-1000-1000-10, Adam, batch 100 a rank, 60,000 + 10,000 images",
                   options.build, torches(options))
    text += (f" Turns: {options.rounds}, timed epochs in each: {options.epochs}, evaluation "
             "included; medians.\n\n")
    text += "\n".join(compare(options, ranks) for ranks in options.ranks)
    publish(text, options.out)


if __name__ == "__main__":
    main()
