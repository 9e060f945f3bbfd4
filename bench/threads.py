#!/usr/bin/env python3
"""One rank with all cores as its threads against one rank a core, at the same global batch.

Programs take turns (A B A B ...). Seconds of an iteration by the programs' own clocks, each
configuration with as many examples on all ranks together. train_seq2seq is an LSTM, on dates of
unequal length. Prints Markdown; --out writes it to a file too.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from comparison import DTYPE_FLAGS, MPI_ENVIRONMENT, heading, parser_for, publish

# Program, its flags, examples in a global batch, and timed iterations.
PROGRAMS = {
    "train_mnist": ([], 200, 60),
    "train_lenet": ([], 512, 30),
    "train_cifar": (["--arch", "cnn10"], 128, 8),
    "train_lm": (["--bytes", "1000000"], 32, 10),
    "train_seq2seq": ([], 128, 30),
    "train_dcgan": ([], 100, 4),
}


def measure(options, name, ranks, dtype):
    """Median seconds of an iteration."""
    flags, batch, steps = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            ["mpirun", "-np", str(ranks), "--bind-to", "none", options.build / "apps" / name,
             *flags, *(["--data", options.data[name]] if name in options.data else []),
             "--batchsize", str(batch // ranks), "--threads", str(options.cores // ranks),
             "--max-iterations", str(steps + 2), "--log-every", "1", "--quiet",
             *DTYPE_FLAGS[dtype], "--out", out],
            check=True, stdout=subprocess.DEVNULL, env={**os.environ, **MPI_ENVIRONMENT})
        log = json.loads((pathlib.Path(out) / "log").read_text())
    ends = [entry["elapsed_time"] for entry in log]
    return statistics.median(after - before for before, after in zip(ends[1:], ends[2:]))


def main():
    parser = parser_for(__doc__, types=False)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--data", nargs="*", default=[], metavar="PROGRAM=PATH",
                        help="the programs' --data")
    options = parser.parse_args()
    if any(batch % options.cores for _, batch, _ in PROGRAMS.values()):
        parser.error(f"--cores {options.cores} does not divide the global batches")
    options.data = dict(each.split("=", 1) for each in options.data)
    text = heading(f"One rank x {options.cores} threads against {options.cores} ranks x 1 thread",
                   options.build)
    text += (f" Turns: {options.rounds}; medians of milliseconds an iteration.\n\n"
             f"| program | global batch | type | 1 x {options.cores} | {options.cores} x 1 | "
             f"{options.cores} x 1 of 1 x {options.cores} |\n|-|-|-|-|-|-|\n")
    for name in options.programs:
        found = {(ranks, dtype): [] for dtype in DTYPE_FLAGS for ranks in (1, options.cores)}
        for _ in range(options.rounds):
            for (ranks, dtype), seconds in found.items():
                seconds.append(measure(options, name, ranks, dtype))
        for dtype in DTYPE_FLAGS:
            one, several = (1e3 * statistics.median(found[ranks, dtype])
                            for ranks in (1, options.cores))
            text += (f"| {name} | {PROGRAMS[name][1]} | {dtype} | {one:.1f} | {several:.1f} | "
                     f"{several / one:.2f} |\n")
    publish(text, options.out)


if __name__ == "__main__":
    main()
