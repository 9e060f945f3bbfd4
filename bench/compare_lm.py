#!/usr/bin/env python3
"""train_lm against PyTorch (DistributedDataParallel over gloo, its fused attention) on the same
transformer, text and cores, in one run.

Programs take turns, each rank with one thread. Next to them stands the floor, in as many processes at
once as there are ranks: a step's matrix products alone, by oneDNN's sgemm with the same shapes
(attention's without the half that causality leaves out, as large products), and AdamW's memory
traffic. Prints Markdown; --out writes it to a file too.
"""
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import (DTYPE_FLAGS, HERE, MPI_ENVIRONMENT, contenders, heading, parser_for, publish,
                        ratios, torches)

WIDTH, LAYERS, CONTEXT, HEADS = 256, 4, 128, 4
BYTES = 4_000_000
TEXT = "/usr/share/dictd/gcide.dict.dz"


def products(batch):
    """m, n, k of the forward products; each has two of the same size in the backward pass."""
    rows = batch * CONTEXT
    block = [(rows, 3 * WIDTH, WIDTH), (rows, WIDTH, WIDTH), (rows, 4 * WIDTH, WIDTH),
             (rows, WIDTH, 4 * WIDTH)]
    # The first half of the queries sees half of the keys, the second one sees all of them.
    size, half = WIDTH // HEADS, batch * HEADS * CONTEXT // 2
    scores = [(half, CONTEXT // 2, size), (half, CONTEXT, size)]
    values = [(m, k, n) for m, n, k in scores]
    return LAYERS * (block + scores + values) + [(rows, 256, WIDTH)]


def parameters():
    return LAYERS * (12 * WIDTH * WIDTH + 13 * WIDTH) + (2 * 256 + CONTEXT + 2) * WIDTH


def floor_of_step(batch, steps=5):
    """Seconds of a step's products and of its update's memory traffic in this process."""
    dnnl = ctypes.CDLL("libdnnl.so.2")
    most = max(max(m * n, m * k, n * k) for m, n, k in products(batch))
    a, b, c = ((ctypes.c_float * most)() for _ in range(3))
    for array in (a, b):
        for i in range(0, most, 7):
            array[i] = 1.0

    def multiply(ta, tb, m, n, k):
        number = ctypes.c_int64
        dnnl.dnnl_sgemm(ctypes.c_char(ta), ctypes.c_char(tb), number(m), number(n), number(k),
                        ctypes.c_float(1), a, number(k if ta == b"N" else m), b,
                        number(n if tb == b"N" else k), ctypes.c_float(0), c, number(n))

    size = 4 * parameters()
    weights, means, squares, gradients = (ctypes.create_string_buffer(b"1" * size)
                                          for _ in range(4))

    def update():
        """Moves as many bytes as AdamW, which reads four arrays and writes three."""
        for to, source, count in ((weights, gradients, size), (means, weights, size),
                                  (squares, means, size), (gradients, squares, size // 2)):
            ctypes.memmove(to, source, count)

    seconds = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        for m, n, k in products(batch):
            multiply(b"N", b"T", m, n, k)
            multiply(b"N", b"N", m, k, n)
            multiply(b"T", b"N", n, k, m)
        update()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def at_once(commands, **variables):
    """Standard outputs of these commands, each pinned to a core of its own."""
    started = [subprocess.Popen(["taskset", "-c", str(core)] + [str(word) for word in command],
                                stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(core),
                                     **variables}) for core, command in enumerate(commands)]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode != 0 for process in started):
        sys.exit(f"compare_lm.py: {commands[0][0]} failed")
    return outputs


def measure_floor(options):
    command = [sys.executable, __file__, "--floor", "--batch", options.batch, "--build",
               options.build]
    return statistics.mean(map(float, at_once([command] * options.ranks)))


def measure_torch(python, options, flags):
    command = [python, HERE / "peer_lm.py", "--data", options.data, "--bytes", BYTES,
               "--batch", options.batch, "--steps", options.steps, *flags]
    found = json.loads(at_once([command] * options.ranks, WORLD_SIZE=str(options.ranks),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT="29613")[0].splitlines()[-1])
    return statistics.median(found["seconds"]), found["bits_per_byte"]


def measure_tasuki(options, dtype):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["mpirun", "-np", str(options.ranks), options.build / "apps/train_lm",
                        "--data", options.data, "--bytes", str(BYTES),
                        "--batchsize", str(options.batch), "--threads", "1", "--max-iterations",
                        str(options.steps), "--log-every", "1", "--quiet", *DTYPE_FLAGS[dtype],
                        "--out", out], check=True, env={**os.environ, **MPI_ENVIRONMENT})
        log = json.loads((pathlib.Path(out) / "log").read_text())
    ends = [entry["elapsed_time"] for entry in log]
    seconds = [after - before for before, after in zip(ends[1:], ends[2:])]
    return statistics.median(seconds), statistics.mean(e["main/bits_per_byte"] for e in log[-10:])


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--data", default=TEXT, help="a text file, plain or gzip-compressed")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16, help="windows of a rank")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--floor", action="store_true", help="time one process's products only")
    options = parser.parse_args()
    if options.floor:
        return print(floor_of_step(options.batch))
    measures = contenders(
        options, lambda python, flags: lambda: measure_torch(python, options, flags),
        lambda dtype: lambda: measure_tasuki(options, dtype))
    floors, found = [], {name: [] for name in measures}
    for _ in range(options.rounds):
        floors.append(measure_floor(options))
        for name, measure in measures.items():
            found[name].append(measure())
    floor = statistics.median(floors)
    text = heading(f"Transformer, {LAYERS} layers, width {WIDTH}, context {CONTEXT}, "
                   f"batch {options.batch} a rank, {options.ranks} ranks x 1 thread",
                   options.build, torches(options))
    text += (f" Turns: {options.rounds}, steps in each: {options.steps}; medians.\n\n"
             "| | s/step | times the floor | bits per byte of the last ten steps |\n|-|-|-|-|\n")
    median = {name: statistics.median(s for s, _ in results) for name, results in found.items()}
    for name, results in found.items():
        bits = statistics.mean(b for _, b in results)
        text += f"| {name} | {median[name]:.4f} | {median[name] / floor:.2f} | {bits:.4f} |\n"
    publish(text + f"| floor | {floor:.4f} | 1 | |\n" + ratios(median), options.out)


if __name__ == "__main__":
    main()
