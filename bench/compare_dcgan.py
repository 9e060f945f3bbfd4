#!/usr/bin/env python3
"""One training step of a DCGAN (both networks, an Adam each) against PyTorch, in one run.

1 x 1 thread, and 2 x 1 threads: two ranks here, DistributedDataParallel over gloo there. Programs take
turns (A B A B ...) pinned to as many cores as they have threads. The peer is the fastest PyTorch of
those named, in the faster of its two memory formats. The floor is the step's convolutions and matrix
products alone, by oneDNN, timed between our steps. Prints Markdown; --out writes it to a file too.
Exit code 1 where the step takes longer than 0.85 of PyTorch's and than 1.15 times the floor.
"""
import json
import os
import shlex
import statistics
import subprocess
import sys

from comparison import (BOTH_ORDERS, HERE, MPI_ENVIRONMENT, contenders, heading, parser_for,
                        peers_in_float32, publish, ratios, torches)

OF_PEER, OF_FLOOR = 0.85, 1.15


def figures_of(command, ranks):
    pinned = ["taskset", "-c", f"0-{ranks - 1}"] + [str(part) for part in command]
    done = subprocess.run(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | MPI_ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"compare_dcgan.py: {shlex.join(pinned)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(options, ranks):
    launcher = ["mpirun", "-np", ranks, "--bind-to", "none"] if ranks > 1 else []
    commands = contenders(
        options, lambda python, flags: [
            python, HERE / "peer_dcgan.py", options.batch, "--steps", options.steps, "--ranks", ranks,
            "--channels", options.channels, *flags],
        lambda dtype: [*launcher, options.build / "bench/bench_dcgan_step", options.batch,
                       options.steps, options.channels, dtype],
        BOTH_ORDERS)
    seconds, floors = {name: [] for name in commands}, []
    for turn in range(options.rounds):
        for name, command in commands.items():
            figures = figures_of(command, ranks)
            seconds[name] += figures["seconds"]
            floors += figures.get("floor", [])
            print(f"{ranks} x 1 turn {turn + 1}: {name} {statistics.median(seconds[name]):.4f}",
                  file=sys.stderr)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    row = f"| {ranks} x 1 |"
    for name, times in seconds.items():
        row += f" {median[name] * 1e3:.0f} ({min(times) * 1e3:.0f}..{max(times) * 1e3:.0f}) |"
    of_floor = median["Tasuki"] / statistics.median(floors)
    row += f" {statistics.median(floors) * 1e3:.0f} | {of_floor:.3f} |"
    peers = peers_in_float32(median)
    if not peers:
        return list(commands), row + " |", ratios(median), of_floor <= OF_FLOOR
    ratio = median["Tasuki"] / min(median[name] for name in peers)
    return (list(commands), row + f" {ratio:.3f} |", ratios(median),
            ratio <= OF_PEER or of_floor <= OF_FLOOR)


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--batch", type=int, default=50, help="images of each rank")
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=3, help="timed in each turn")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall",
                        help="processor: rank 0's processor time, where others use the cores too")
    options = parser.parse_args()
    os.environ["TASUKI_BENCH_CLOCK"] = options.clock
    rows = [compare(options, ranks) for ranks in options.ranks]
    names = rows[0][0]
    text = heading("One training step of a DCGAN", options.build, torches(options))
    text += (f" {options.batch} images of 3 x 32 x 32 a rank, {options.channels} channels. "
             f"Milliseconds of {options.clock} time: median (min..max) of {options.rounds} turns of "
             f"{options.steps} steps; "
             f"floor: the step's products alone. Aim: {OF_PEER} of PyTorch's best time or "
             f"{OF_FLOOR} of the floor, whichever is longer.\n\n"
             f"| ranks x threads | {' | '.join(names)} | floor | of the floor | of PyTorch |\n"
             f"|{'-|' * (len(names) + 4)}\n"
             + "\n".join(row for _, row, _, _ in rows) + "\n")
    for ranks, (_, _, said, _) in zip(options.ranks, rows):
        text += f"\n{ranks} x 1: {said.strip()}\n"
    publish(text, options.out)
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
