#!/usr/bin/env python3
"""One training step of a DCGAN (both networks, Adam) against PyTorch, in one run.

1 x 1 thread, and 2 x 1 threads: two ranks here, DistributedDataParallel over gloo there. Programs take
turns (A B A B ...) pinned to as many cores as they have threads. The peer is the fastest PyTorch of
those named, in the faster of its two memory formats. Prints Markdown; --out writes it to a file too.
Exit code 1 where the ratio of a case is above its aim.
"""
import json
import os
import shlex
import statistics
import subprocess
import sys

from comparison import HERE, MPI_ENVIRONMENT, heading, parser_for, publish, torches

AIM = 0.85


def seconds_of(command, ranks):
    pinned = ["taskset", "-c", f"0-{ranks - 1}"] + [str(part) for part in command]
    done = subprocess.run(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | MPI_ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"compare_dcgan.py: {shlex.join(pinned)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def compare(options, ranks):
    ours = [options.build / "bench/bench_dcgan_step", options.batch, options.steps,
            options.channels]
    if ranks > 1:
        ours = ["mpirun", "-np", ranks, "--bind-to", "none"] + ours
    contenders = {}
    for name, python in torches(options).items():
        peer = [python, HERE / "peer_dcgan.py", options.batch, "--steps", options.steps, "--ranks",
                ranks, "--channels", options.channels]
        contenders |= {name: peer, f"{name}, channels_last": peer + ["--channels-last"]}
    peers = list(contenders)
    contenders["Tasuki"] = ours
    seconds = {name: [] for name in contenders}
    for turn in range(options.rounds):
        for name, command in contenders.items():
            seconds[name] += seconds_of(command, ranks)
            print(f"{ranks} x 1 turn {turn + 1}: {name} {statistics.median(seconds[name]):.4f}",
                  file=sys.stderr)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    row = f"| {ranks} x 1 |"
    for name, times in seconds.items():
        row += f" {median[name] * 1e3:.0f} ({min(times) * 1e3:.0f}..{max(times) * 1e3:.0f}) |"
    if not peers:
        return list(contenders), row + " | |", True
    ratio = median["Tasuki"] / min(median[name] for name in peers)
    return list(contenders), row + f" **{ratio:.3f}** | {AIM} |", ratio <= AIM


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--batch", type=int, default=50, help="images of each rank")
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=3, help="timed in each turn")
    options = parser.parse_args()
    rows = [compare(options, ranks) for ranks in options.ranks]
    names = rows[0][0]
    text = heading("One training step of a DCGAN")
    text += (f" {options.batch} images of 3 x 32 x 32 a rank, {options.channels} channels. "
             f"Milliseconds: median (min..max) of {options.rounds} turns of {options.steps} steps; "
             f"ratio: Tasuki's time over PyTorch's best one.\n\n"
             f"| ranks x threads | {' | '.join(names)} | ratio | aim |\n|{'-|' * (len(names) + 3)}\n"
             + "\n".join(row for _, row, _ in rows) + "\n")
    publish(text, options.out)
    return 0 if all(met for _, _, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
