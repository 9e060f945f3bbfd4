#!/usr/bin/env python3
"""The LSTM step of seq2seq (forward and backward) against PyTorch's, in one run.

Programs take turns (A B A B ...), pinned to as many cores as they have threads. With --ranks 2, two
ranks exchange gradients, PyTorch's by DistributedDataParallel over gloo, and a step has an update by
SGD. Next to them stands the floor: the matrix products alone, in float32 (bench_lstm_step). Sequences
are all of one length, and then ragged. Prints Markdown; --out writes it to a file too.
"""
import json
import os
import statistics
import subprocess
import sys

from comparison import (HERE, MPI_ENVIRONMENT, contenders, heading, parser_for, publish, ratios,
                        torches)


def run(options, command, threads):
    cores = options.ranks * threads
    done = subprocess.run(["taskset", "-c", f"0-{cores - 1}"] + [str(part) for part in command],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **MPI_ENVIRONMENT, "OMP_NUM_THREADS": str(threads)})
    if done.returncode != 0:
        sys.exit(f"compare_lstm.py: {command[0]} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(options, threads, ragged, dtype):
    launcher = ["mpirun", "-np", options.ranks, "--bind-to", "none"] if options.ranks > 1 else []
    return run(options, [*launcher, options.build / "bench/bench_lstm_step", options.steps, threads,
                         options.layers, options.units, options.batch, options.length,
                         "ragged" if ragged else "even", dtype], threads)


def theirs(python, options, threads, ragged, flags):
    return run(options, [python, HERE / "peer_lstm.py", "--rounds", options.steps, "--threads", threads,
                         "--ranks", options.ranks, "--layers", options.layers, "--units", options.units,
                         "--batch", options.batch, "--length", options.length, *flags,
                         *(["--ragged"] if ragged else [])], threads)


def compare(options, threads, ragged):
    measures = contenders(
        options, lambda python, flags: lambda: theirs(python, options, threads, ragged, flags),
        lambda dtype: lambda: ours(options, threads, ragged, dtype))
    seconds = {name: [] for name in [*measures, "products"]}
    for _ in range(options.rounds):
        for name, measure in measures.items():
            measured = measure()
            seconds[name] += measured["seconds"]
            seconds["products"] += measured.get("products", [])
    median = {name: statistics.median(times) for name, times in seconds.items()}
    ranks = f"{options.ranks} ranks x " if options.ranks > 1 else ""
    text = (f"## {'Ragged' if ragged else 'Even'} sequences, {ranks}{threads} thread"
            f"{'s' if threads > 1 else ''}\n\n| | ms/step | min..max | times the products |\n"
            "|-|-|-|-|\n")
    for name, times in seconds.items():
        text += (f"| {name} | {1e3 * median[name]:.1f} | {1e3 * min(times):.1f}.."
                 f"{1e3 * max(times):.1f} | {median[name] / median['products']:.2f} |\n")
    return text + ratios(median)


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, nargs="+", help="of each rank (default: 1, and of one "
                        "rank 2)")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10, help="timed ones in each turn")
    options = parser.parse_args()
    options.threads = options.threads or ([1, 2] if options.ranks == 1 else [1])
    exchange = ", exchange and update" if options.ranks > 1 else ""
    text = heading(f"LSTM, {options.layers} layers of {options.units} units, batch {options.batch}, "
                   f"length {options.length}, forward and backward{exchange}",
                   options.build, torches(options))
    text += f" Turns: {options.rounds}, timed steps in each: {options.steps}; medians of "
    text += ("processor time with one thread (of the thread; PyTorch: of its process) and of wall time "
             "with two.\n\n" if options.ranks == 1 else "wall time.\n\n")
    text += "\n".join(compare(options, threads, ragged)
                      for threads in options.threads for ragged in (False, True))
    publish(text, options.out)


if __name__ == "__main__":
    main()
