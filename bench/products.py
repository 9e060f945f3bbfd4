#!/usr/bin/env python3
"""Matrix products of the programs' layers against what the processor can do, on one core.

The bound of a product is the longer of two times: its operations at the highest rate that the
processor's instructions reach, and its operands and result at the rate at which 8 MiB are copied (in
the last cache, usually). Rates are measured by bench_product_rates in the same run. A step of an LSTM
multiplies by weights that were ordered before (tensor/cpu/step_product.hpp); the gradients of its
weights are computed for all steps at once. Prints Markdown; --out writes it to a file too.
"""
import json
import os
import subprocess

from comparison import heading, parser_for, publish

# Rows, inputs and outputs.
LAYERS = {
    "perceptron, hidden 1": (100, 784, 1000),
    "perceptron, hidden 2": (100, 1000, 1000),
    "LeNet, hidden": (256, 800, 128),
    "transformer, queries, keys and values": (2048, 256, 768),
    "transformer, attention's output": (2048, 256, 256),
    "transformer, hidden": (2048, 256, 1024),
    "transformer, output": (2048, 1024, 256),
    "LSTM, inputs of all steps": (2048, 512, 2048),
}
# With the same weights in each step of a sequence.
STEPS = {"LSTM, states of a step": (64, 512, 2048)}
BYTES = {"float32": 4, "bfloat16": 2}


def bound(rates, layer, which):
    """Seconds."""
    m, k, n, size = layer["m"], layer["k"], layer["n"], BYTES[layer["type"]]
    # A step's results are float32, and so are the gradients of weights.
    result = size if "weights" in layer else 4
    sizes = {"forward": size * (m * k + n * k) + result * m * n,
             "data": size * (m * n + n * k) + result * m * k,
             "weights": size * (m * k + m * n) + 4 * n * k}
    operations = 2 * m * k * n
    # Without instructions for bfloat16 that are faster, products are computed in float32.
    rate = max(rates[layer["type"]], rates["float32"])
    return max(operations / rate, sizes[which] / rates["copy"])


def main():
    parser = parser_for(__doc__, types=False)
    options = parser.parse_args()
    shapes, of_steps = ([size for layer in layers.values() for size in layer]
                        for layers in (LAYERS, STEPS))
    done = subprocess.run(
        ["taskset", "-c", str(min(os.sched_getaffinity(0))), str(options.build / "bench/bench_product_rates"),
         *map(str, [options.rounds, *shapes, "steps", *of_steps])], check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    rates = json.loads(done.stdout)
    text = heading("Matrix products of the programs' layers, 1 thread", options.build)
    text += (f" Measured limits: float32 {rates['float32'] / 1e9:.0f} GFLOP/s, bfloat16 "
             f"{rates['bfloat16'] / 1e9:.0f} GFLOP/s, copies {rates['copy'] / 1e9:.0f} GB/s. Each "
             "cell: GFLOP/s, and the share of the bound.\n\n"
             "| layer | rows x inputs x outputs | type | forward | data | weights |\n"
             "|-|-|-|-|-|-|\n")
    names = [name for name in {**LAYERS, **STEPS} for _ in BYTES]
    for name, layer in zip(names, rates["layers"]):
        cells = [f"{2e-9 * layer['m'] * layer['k'] * layer['n'] / layer[which]:.0f}, "
                 f"{100 * bound(rates, layer, which) / layer[which]:.0f} %" if which in layer else ""
                 for which in ("forward", "data", "weights")]
        text += (f"| {name} | {layer['m']} x {layer['k']} x {layer['n']} | {layer['type']} | "
                 f"{' | '.join(cells)} |\n")
    publish(text, options.out)


if __name__ == "__main__":
    main()
