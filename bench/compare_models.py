#!/usr/bin/env python3
"""One training step of convnets (forward, backward, momentum SGD) against PyTorch, in one run.

Programs take turns (A B A B ...) pinned to as many cores as they have threads; with one rank of one
thread, processor time counts. With --ranks 2, two ranks exchange gradients, PyTorch's by
DistributedDataParallel over gloo. The peer is the fastest PyTorch of those named, in the faster of its
two memory formats. Prints Markdown; --out writes it to a file too. Exit code 1 where a ratio is above its aim.
"""
import json
import os
import shlex
import statistics
import subprocess
import sys

from comparison import (BOTH_ORDERS, HERE, MPI_ENVIRONMENT, contenders, heading, parser_for,
                        peers_in_float32, publish, ratios, torches)

# Batch sizes, and the largest ratio that is aimed at with one rank.
CASES = {"lenet": (256, 0.5), "cnn10": (128, 0.5), "vgg16_bn": (64, 0.55), "wrn_28_10": (8, 0.6),
         "resnet20": (128, 1)}


def seconds_of(command, cores):
    pinned = ["taskset", "-c", f"0-{cores - 1}"] + [str(part) for part in command]
    done = subprocess.run(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | MPI_ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"compare_models.py: {shlex.join(pinned)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def compare(options, model):
    batch, aim = CASES[model]
    aim = aim if options.ranks == 1 else None
    batch = options.batch or batch
    steps, threads, ranks = options.steps, options.threads, options.ranks
    launcher = ["mpirun", "-np", ranks, "--bind-to", "none"] if ranks > 1 else []
    commands = contenders(
        options, lambda python, flags: [
            python, HERE / "peer_step.py", model, batch, "--steps", steps, "--threads", threads,
            "--ranks", ranks, *flags],
        lambda dtype: [*launcher, options.build / "bench/bench_model_step", model, batch, steps,
                       threads, dtype],
        BOTH_ORDERS)
    seconds = {name: [] for name in commands}
    for turn in range(options.rounds):
        for name, command in commands.items():
            seconds[name] += seconds_of(command, ranks * threads)
            print(f"{model} turn {turn + 1}: {name} {statistics.median(seconds[name]):.4f}",
                  file=sys.stderr)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    row = f"| {model} | {batch} |"
    for name, times in seconds.items():
        row += f" {median[name] * 1e3:.1f} ({min(times) * 1e3:.1f}..{max(times) * 1e3:.1f}) |"
    peers = peers_in_float32(median)
    if not peers:
        return list(commands), row + f" | {aim or ''} |", ratios(median), True
    ratio = median["Tasuki"] / min(median[name] for name in peers)
    return (list(commands), row + f" **{ratio:.3f}** | {aim or ''} |", ratios(median),
            aim is None or ratio <= aim)


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--batch", type=int, help="of each rank, instead of each model's own")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--steps", type=int, default=4, help="timed in each turn")
    options = parser.parse_args()

    rows = [compare(options, model) for model in options.models]
    names = rows[0][0]
    ranks = f"{options.ranks} ranks, " if options.ranks > 1 else ""
    text = heading(f"One training step, {ranks}{options.threads} thread(s)", options.build,
                   torches(options))
    clock = " of processor time" if options.ranks * options.threads == 1 else ""
    text += (f" Milliseconds{clock}: median (min..max) of {options.rounds} turns of "
             f"{options.steps} steps; ratio: Tasuki's time over PyTorch's best one, float32.\n\n"
             f"| model | batch | {' | '.join(names)} | ratio | aim |\n|{'-|' * (len(names) + 4)}\n"
             + "\n".join(row for _, row, _, _ in rows) + "\n")
    for model, (_, _, said, _) in zip(options.models, rows):
        text += f"\n{model}: {said.strip()}\n"
    publish(text, options.out)
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
