#!/usr/bin/env python3
"""What --recompute all saves and costs: activations and time of a step, with it and without.

Runs take turns (A B A B ...). Activations are what a dry run counts after a forward pass; seconds of
an iteration are by the programs' own clocks. Prints Markdown; --out writes it to a file too.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from comparison import MPI_ENVIRONMENT, heading, options_for_programs, publish

# Program, its flags, examples in a batch, iterations.
CASES = (
    ("train_cifar", ["--arch", "wrn_28_10", "--conv", "direct"], 64, 3),
    ("train_cifar", ["--arch", "cnn10", "--conv", "direct"], 64, 8),
    ("train_lm", ["--bytes", "1000000"], 16, 8),
)


def run(options, case, blocks, *more):
    name, flags, batch, _ = case
    data = ["--data", options.data[name]] if name in options.data else []
    with tempfile.TemporaryDirectory() as out:
        printed = subprocess.run(
            [options.build / "apps" / name, *flags, *data, "--recompute", blocks, "--batchsize",
             str(batch), "--probe", "off", "--test-examples", "100", "--out", out, *more],
            check=True, capture_output=True, text=True, env={**os.environ, **MPI_ENVIRONMENT}).stdout
        log = pathlib.Path(out) / "log"
        return printed, json.loads(log.read_text()) if log.exists() else []


def activations(options, case, blocks):
    """MB after a forward pass."""
    printed, _ = run(options, case, blocks, "--dry-run")
    return float(re.search(r"([\d.]+) MB activations", printed)[1])


def seconds(options, case, blocks):
    """Median of an iteration."""
    _, log = run(options, case, blocks, "--max-iterations", str(case[-1] + 1), "--log-every", "1",
                 "--quiet")
    ends = [entry["elapsed_time"] for entry in log]
    return statistics.median(after - before for before, after in zip(ends, ends[1:]))


def main():
    options = options_for_programs(__doc__)
    text = heading("What `--recompute all` saves and costs", options.build)
    text += (f" Turns: {options.rounds}; one rank with all cores; MB of activations after a forward "
             "pass, medians of seconds an iteration.\n\n| program | batch | MB without | with | with "
             "of without | seconds without | with | with of without |\n|-|-|-|-|-|-|-|-|\n")
    for case in CASES:
        kept, less = (activations(options, case, blocks) for blocks in ("none", "all"))
        found = {"none": [], "all": []}
        for _ in range(options.rounds):
            for blocks, times in found.items():
                times.append(seconds(options, case, blocks))
        without, with_it = (statistics.median(found[blocks]) for blocks in ("none", "all"))
        name, flags, batch, _ = case
        title = " ".join([name, *flags[:2]]) if "--arch" in flags else name
        text += (f"| {title} | {batch} | {kept:.0f} | {less:.0f} | {less / kept:.2f} | {without:.3f} | "
                 f"{with_it:.3f} | {with_it / without:.2f} |\n")
    publish(text, options.out)


if __name__ == "__main__":
    main()
