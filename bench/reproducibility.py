#!/usr/bin/env python3
"""What --reproducible costs: steps with it against steps without, at the same global batch.

Programs take turns, and which one is first changes (A B B A ...). Seconds of an
iteration by the programs' own clocks. With --before, steps without the flag are
also compared with an earlier build. Prints Markdown; --out writes it to a file
too.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from comparison import MPI_ENVIRONMENT, heading, parser_for_programs, publish, read_data

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
# Those that are compared with an earlier build.
FLAGLESS = (
    ("train_mnist", [], 1, 1, 100, 0, 300),
    ("train_mnist", [], 2, 1, 200, 0, 300),
    ("train_lenet", [], 1, 1, 100, 0, 150),
    ("train_lm", ["--bytes", "1000000"], 1, 1, 16, 0, 12),
)
# Cases of several seconds an iteration, which vary less, take a third of the turns.
LONG = ("train_cifar", "train_lm")


def measure(options, build, case, is_reproducible):
    """Median seconds of an iteration."""
    name, flags, ranks, threads, batch, shards, steps = case
    data = ["--data", options.data[name]] if name in options.data else []
    mode = ["--reproducible", "--shards", str(shards)] if is_reproducible else []
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            ["mpirun", "-np", str(ranks), "--bind-to", "none", build / "apps" / name,
             *flags, *data, *mode, "--global-batch", str(batch), "--threads",
             str(threads), "--probe", "off",
             "--max-iterations", str(steps + 2), "--log-every", "1", "--test-examples", "200",
             "--quiet", "--out", out],
            check=True, stdout=subprocess.DEVNULL, env={**os.environ, **MPI_ENVIRONMENT})
        log = json.loads((pathlib.Path(out) / "log").read_text())
    ends = [entry["elapsed_time"] for entry in log]
    return statistics.median(after - before for before, after in zip(ends[1:], ends[2:]))


def turns(options, case, first, second):
    """Medians of two measurements in milliseconds, and quartiles of the second one's share."""
    found = ([], [])
    rounds = options.rounds if case[0] not in LONG else (options.rounds + 2) // 3
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            found[which].append((first, second)[which](case))
    shares = sorted(after / before for before, after in zip(*found))
    lower, middle, upper = (statistics.quantiles(shares, n=4, method="inclusive")
                            if rounds > 1 else shares * 3)
    return (f"{rounds} | {1e3 * statistics.median(found[0]):.1f} | "
            f"{1e3 * statistics.median(found[1]):.1f} | {middle:.2f} | {lower:.2f} to {upper:.2f} |\n")


def main():
    parser = parser_for_programs(__doc__)
    parser.add_argument("--before", type=pathlib.Path, metavar="BUILD", help="an earlier build")
    options = read_data(parser.parse_args())
    text = heading("The price of `--reproducible`", options.build)
    text += (" Medians of milliseconds an iteration; the median of the turns' ratios, and their "
             "middle half.\n\n| program | ranks | threads of each | global batch | shards | examples "
             "of a shard | turns | without | with | with of without | half of the turns |\n"
             "|-|-|-|-|-|-|-|-|-|-|-|\n")
    for case in CASES:
        name, _, ranks, threads, batch, shards, _ = case
        text += (f"| {name} | {ranks} | {threads} | {batch} | {shards} | {batch / shards:.3g} | "
                 + turns(options, case, lambda each: measure(options, options.build, each, False),
                         lambda each: measure(options, options.build, each, True)))
    if options.before:
        text += ("\nWithout the flag, against an earlier build:\n\n| program | ranks | global batch | "
                 "turns | before | now | now of before | half of the turns |\n|-|-|-|-|-|-|-|-|\n")
        for case in FLAGLESS:
            name, _, ranks, _, batch, _, _ = case
            text += (f"| {name} | {ranks} | {batch} | "
                     + turns(options, case,
                             lambda each: measure(options, options.before, each, False),
                             lambda each: measure(options, options.build, each, False)))
    publish(text, options.out)


if __name__ == "__main__":
    main()
