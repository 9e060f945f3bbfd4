#!/usr/bin/env python3
"""What reliability costs: training with each of its settings against training without it, in turns.

    bench/reliability_costs.py [--models mlp,cnn10] [--seconds 12] [--rounds 4] [--out FILE]

Two ranks of one thread each. In a round every setting has its turn, every other round in reverse
order, so that a slow phase of the machine meets all of them. A figure is the time per step of a
run, by the log, without its first second. The cost is the median over the rounds of time with /
time without - 1; the least and the largest follow.

A hundredth of a step's time is less than a machine varies from run to run. What happens seldom
therefore happens more often here than a user would let it, and the cost is divided by how much more
often: replicas are compared every 10 steps in place of 100, checkpoints are written every 5 s in
place of 30. Comparing replicas needs --node-weights private, as ranks of a machine otherwise have
one copy; its figures are against --node-weights private alone. The watchdog's thread and its
heartbeats are off in the first column (--stall-warning 0 --stall-timeout 0). The look at each loss
has no switch, and is on in both columns: it reads one number per step.

The programs find their data themselves: cnn10 needs scripts/get_data.sh cifar10, or $TASUKI_DATA.
Prints Markdown; --out writes it to a file, too. With the defaults it takes 12 minutes or less.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from comparison import HERE, MPI_ENVIRONMENT, build_folder, heading, publish
from scaling import MODELS

NOTHING = ["--stall-warning", "0", "--stall-timeout", "0"]
PRIVATE = ["--node-weights", "private"]
# Name, flags, what it is compared with, how much more often than in use it happens, limit.
SETTINGS = [
    ("nothing", NOTHING, None, 1, None),
    ("watchdog and heartbeats (the default)", [], "nothing", 1, 0.01),
    ("--on-nan skip", ["--on-nan", "skip"], "watchdog and heartbeats (the default)", 1, 0.01),
    ("--checkpoint-every 30s", ["--checkpoint-every", "5s"],
     "watchdog and heartbeats (the default)", 6, 0.02),
    ("--node-weights private", PRIVATE, None, 1, None),
    ("--check-replicas 100", [*PRIVATE, "--check-replicas", "10"], "--node-weights private", 10,
     0.01),
]


def seconds_per_step(model, flags, steps, options):
    """Of a run of so many steps, from the first log entry after a second to the last one."""
    program, *own = MODELS[model][0]
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        # Later flags count.
        command = ["mpirun", "-np", "2", "--bind-to", "none",
                   options.build.resolve() / "apps" / program, *own, "--threads", "1",
                   "--batchsize", MODELS[model][1], "--max-iterations", steps, "--epoch", 10**6,
                   "--log-every", max(1, steps // 100), "--test-examples", 2, "--quiet",
                   "--checkpoint-every", "none", *flags, "--out", f"{folder}/out"]
        command = [str(word) for word in command]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=options.timeout, env={**os.environ, **MPI_ENVIRONMENT})
        if done.returncode != 0:
            sys.exit(f"reliability_costs.py: {shlex.join(command)} failed:\n{done.stderr}")
        log = json.loads(pathlib.Path(folder, "out/log").read_text())
    timed = [entry for entry in log if entry["elapsed_time"] >= 1] or log
    first, last = timed[0], timed[-1]
    return (last["elapsed_time"] - first["elapsed_time"]) / (last["iteration"] - first["iteration"])


def steps_for(model, options):
    """So many that a run takes --seconds here."""
    steps = 20
    while True:
        step = seconds_per_step(model, NOTHING, steps, options)
        if steps * step > 2:
            return max(20, round(options.seconds / step))
        steps = max(2 * steps, round(3 / step))


def compare(model, options):
    steps = steps_for(model, options)
    found = {name: [] for name, *_ in SETTINGS}
    for turn in range(options.rounds):
        for name, flags, *_ in SETTINGS if turn % 2 == 0 else reversed(SETTINGS):
            found[name].append(seconds_per_step(model, flags, steps, options))
            print(f"{model}, round {turn + 1}: {name} {found[name][-1] * 1e3:.3f} ms",
                  file=sys.stderr)
    text = (f"## {model}, batch {MODELS[model][1]} a rank, {steps} steps a run\n\n"
            "| | ms/step | cost | min..max | limit |\n|-|-|-|-|-|\n")
    for name, _, base, factor, limit in SETTINGS:
        row = f"| {name} | {statistics.median(found[name]) * 1e3:.3f} |"
        if base:
            costs = [100 * (own / other - 1) / factor
                     for own, other in zip(found[name], found[base])]
            row += (f" {statistics.median(costs):.2f} % | {min(costs):.2f}..{max(costs):.2f} | "
                    f"{100 * limit:.0f} % |")
        else:
            row += " | | |"
        text += row + "\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=build_folder, default=str(HERE.parent / "build"))
    parser.add_argument("--rounds", type=int, default=4, help="turns of each setting")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--models", default="mlp,cnn10")
    parser.add_argument("--seconds", type=float, default=12, help="of a run")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for checkpoints (default: /tmp)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a program")
    options = parser.parse_args()
    text = heading("What reliability costs, 2 ranks of one thread each", options.build) + "\n\n"
    text += ("Cost: median over the rounds of time per step with / without - 1, and the range. "
             "Replicas were compared every 10 steps and checkpoints written every 5 s; the figures "
             "are a tenth and a sixth of what was measured. ms/step is what was measured.\n\n")
    text += "\n".join(compare(model, options) for model in options.models.split(","))
    publish(text, options.out)


if __name__ == "__main__":
    main()
