#!/usr/bin/env python3
"""What --reproducible costs: steps with it against steps without, at the same global batch.

Programs take turns (A B A B ...). Seconds of an iteration by the programs' own
clocks. Prints Markdown; --out writes it to a file too.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from comparison import MPI_ENVIRONMENT, heading, options_for_programs, publish

# Program, its flags, ranks, threads of each, examples in a global batch, shards, iterations.
CASES = (
    ("train_mnist", [], 2, 1, 200, 2, 100),
    ("train_mnist", [], 1, 1, 400, 8, 50),
    ("train_mnist", [], 1, 2, 400, 8, 50),
    ("train_mnist", [], 1, 1, 100, 8, 100),
    ("train_mnist", [], 1, 1, 100, 24, 100),
    ("train_mnist", [], 1, 1, 1200, 24, 20),
    ("train_lenet", [], 1, 1, 400, 8, 50),
    ("train_lenet", [], 1, 1, 512, 8, 50),
    ("train_cifar", ["--arch", "cnn10"], 1, 1, 400, 8, 5),
    ("train_cifar", ["--arch", "cnn10"], 1, 2, 400, 8, 8),
    ("train_lm", ["--bytes", "1000000"], 1, 1, 16, 8, 12),
)


def measure(options, case, is_reproducible):
    """Median seconds of an iteration."""
    name, flags, ranks, threads, batch, shards, steps = case
    data = ["--data", options.data[name]] if name in options.data else []
    mode = ["--reproducible", "--shards", str(shards)] if is_reproducible else []
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            ["mpirun", "-np", str(ranks), "--bind-to", "none", options.build / "apps" / name,
             *flags, *data, *mode, "--global-batch", str(batch), "--threads",
             str(threads), "--probe", "off",
             "--max-iterations", str(steps + 2), "--log-every", "1", "--test-examples", "200",
             "--quiet", "--out", out],
            check=True, stdout=subprocess.DEVNULL, env={**os.environ, **MPI_ENVIRONMENT})
        log = json.loads((pathlib.Path(out) / "log").read_text())
    ends = [entry["elapsed_time"] for entry in log]
    return statistics.median(after - before for before, after in zip(ends[1:], ends[2:]))


def main():
    options = options_for_programs(__doc__)
    text = heading("The price of `--reproducible`")
    text += (f" Turns: {options.rounds}; medians of milliseconds an "
             "iteration.\n\n| program | ranks | threads of each | global batch | shards | examples of a shard | without "
             "| with | with of without |\n|-|-|-|-|-|-|-|-|-|\n")
    for case in CASES:
        found = {False: [], True: []}
        for _ in range(options.rounds):
            for mode, seconds in found.items():
                seconds.append(measure(options, case, mode))
        name, _, ranks, threads, batch, shards, _ = case
        without, with_it = (1e3 * statistics.median(found[mode]) for mode in (False, True))
        text += (f"| {name} | {ranks} | {threads} | {batch} | {shards} | {batch / shards:.3g} | "
                 f"{without:.1f} | {with_it:.1f} | {with_it / without:.2f} |\n")
    publish(text, options.out)


if __name__ == "__main__":
    main()
