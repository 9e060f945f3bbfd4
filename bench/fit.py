#!/usr/bin/env python3
"""Compares memory and step times that tasuki-simulate predicts with those of real runs.

For each program a run is traced, one rank with all cores. From it, tasuki-simulate predicts that run,
--recompute all, and the fastest settings for some parts of the memory (--fit). Runs with these
settings take turns (A B C A B C ...). Left out is what chooses by the memory that is free
(--recompute auto). Prints Markdown; --out writes it to a file too.
"""
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import tempfile

from comparison import MPI_ENVIRONMENT, heading, options_for_programs, publish

ITERATIONS = 8  # of which the last five are traced
# Program, its flags, examples in a step, and parts of the memory that this needs.
CASES = (
    ("train_cifar", ["--arch", "cnn10", "--conv", "direct"], 64, (0.8, 0.6)),
    ("train_lm", ["--bytes", "1000000"], 16, (0.85, 0.65)),
    ("train_cifar", ["--arch", "wrn_28_10", "--conv", "direct"], 8, ()),
)


def run(options, case, folder, *flags):
    """The summary of a run, which saves a checkpoint, and the seconds of its iterations but the first."""
    name, own, _, _ = case
    data = ["--data", options.data[name]] if name in options.data else []
    printed = subprocess.run(
        [options.build / "apps" / name, *own, *data, "--probe", "off", "--test-examples", "100",
         "--out", folder / "run", "--overwrite", "--max-iterations", str(ITERATIONS),
         "--log-every", "1", "--checkpoint-every", "4it", *flags],
        check=True, capture_output=True, text=True, env={**os.environ, **MPI_ENVIRONMENT}).stdout
    ends = [entry["elapsed_time"] for entry in json.loads((folder / "run/log").read_text())]
    return printed, [after - before for before, after in zip(ends, ends[1:])]


def simulate(options, folder, *flags):
    """What tasuki-simulate predicts from the trace; None if nothing fits."""
    out = folder / "predicted.json"
    ended = subprocess.run([options.build / "apps/tasuki-simulate", "--single", folder / "trace.json",
                            "--ranks", "1", "--json", out, *flags], capture_output=True, text=True)
    if ended.returncode == os.EX_UNAVAILABLE:
        return None
    ended.check_returncode()
    return json.loads(out.read_text())


def predictions(options, case, folder):
    """Predicted bytes and seconds, by flags; the traced run's first."""
    _, _, batch, parts = case
    found = {}
    for blocks in ("none", "all"):
        seen = simulate(options, folder, "--recompute", blocks)
        flags = f"--batchsize {batch}" + (" --recompute all" if blocks == "all" else "")
        found[flags] = (seen["memory"]["total"], seen["rows"][0]["step"])
    whole = found[f"--batchsize {batch}"][0]
    for part in parts:
        seen = simulate(options, folder, "--fit", f"{part * whole:.0f}B")
        for row in seen["fit"] if seen else []:
            if "--recompute auto" not in row["flags"]:
                found[row["flags"]] = (row["memory"]["total"], row["step"])
    return found


def rows(options, case):
    name, own, batch, _ = case
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        run(options, case, folder, "--batchsize", str(batch), "--trace", folder / "trace.json")
        predicted = predictions(options, case, folder)
        seconds, memory = {flags: [] for flags in predicted}, {}
        for _ in range(options.rounds):
            for flags in predicted:
                printed, times = run(options, case, folder, *shlex.split(flags))
                seconds[flags] += times
                memory[flags] = float(re.search(r"at most ([\d.]+) MB of memory", printed)[1])
    title = " ".join([name, *own[:2]]) if "--arch" in own else name
    plain = next(iter(predicted))
    measured = {flags: statistics.median(times) for flags, times in seconds.items()}
    for flags, (total, step) in predicted.items():
        yield (f"| {title} | `{flags}` | {total / 1e6:.0f} | {memory[flags]:.0f} | {step * 1e3:.0f} "
               f"| {measured[flags] * 1e3:.0f} | {step / predicted[plain][1]:.2f} "
               f"| {measured[flags] / measured[plain]:.2f} |\n")


def main():
    options = options_for_programs(__doc__)
    text = heading("What `tasuki-simulate --fit` predicts", options.build)
    text += (f" Turns: {options.rounds}; one rank with all cores. The process's peak memory in MB, medians "
             "of an iteration in ms, and these as parts of the traced run's.\n\n| program | flags | MB "
             "predicted | measured | ms predicted | measured | of traced, predicted | measured |\n"
             "|-|-|-|-|-|-|-|-|\n")
    for case in CASES:
        text += "".join(rows(options, case))
    publish(text, options.out)


if __name__ == "__main__":
    main()
