#!/usr/bin/env python3
"""Training over a network against PyTorch's DistributedDataParallel, in the same namespaces.

    bench/compare_nodes.py --python PYTHON_WITH_TORCH --models mlp,wrn_28_10 --rate 1gbit

Two nodes of one rank each, or --slots. Programs take turns (A B A B ...), one thread per rank, on
links of one rate. A row has the median step, and the megabytes that the first node has sent for each
step, start and data included. With --bfloat16 they compute in bfloat16, too (here --dtype bf16, there
autocast with and without torch.compile). Prints Markdown; --out writes it to a file too.
"""
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from comparison import (DTYPE_FLAGS, HERE, MPI_ENVIRONMENT, contenders, heading, parser_for, publish,
                        torches)
from scaling import MODELS, measured

# Gradients as they are, and rounded to float16 on the link.
KINDS = {", DDP over gloo": [], ", DDP, fp16 hook": ["--fp16"]}
WIRE = ["--wire-dtype", "fp16"]
SENT = "/sys/class/net/eth0/statistics/tx_bytes"


def on_nodes(command, options):
    """Standard output of a command under mpirun on the nodes, and the bytes that node 1 sent."""
    counted = f"before=$(cat {SENT}); {shlex.join(command)}; rc=$?; " \
              f'[ "$OMPI_COMM_WORLD_RANK" != 0 ] || echo "sent $(($(cat {SENT}) - before))"; exit $rc'
    words = [HERE.parent / "tests/cluster/run.sh", "--rate", options.rate, "--slots", options.slots,
             "--", "bash", "-c", counted]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=options.timeout,
                          env={**os.environ, **MPI_ENVIRONMENT, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"compare_nodes.py: {shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
    sent = int(done.stdout.rsplit("sent ", 1)[1])
    return done.stdout, sent


def torch_steps(python, model, flags, options):
    out, sent = on_nodes([python, str(HERE / "peer_nodes.py"), model, str(MODELS[model][1]),
                          "--steps", str(options.steps), *flags], options)
    steps = json.loads(next(line for line in out.splitlines() if line.startswith("[")))
    return statistics.median(steps), sent / (options.steps + 4)


def tasuki_steps(model, flags, options):
    program, *own = MODELS[model][0]
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        # The first steps try several modes of the exchange.
        steps = options.steps + options.trial_steps
        _, sent = on_nodes(
            [str(options.build.resolve() / "apps" / program), *own, "--threads", "1", "--batchsize",
             str(MODELS[model][1]), "--max-iterations", str(steps), "--trace", str(trace),
             "--trace-steps", str(steps), "--examples", "4000", "--test-examples", "2", "--quiet",
             "--overwrite", "--out", f"{folder}/out", *flags], options)
        return measured(json.loads(trace.read_text()))["step"], sent / steps


def compare(model, options):
    measures = contenders(
        options, lambda python, flags: lambda: torch_steps(python, model, flags, options),
        lambda dtype: lambda: tasuki_steps(model, DTYPE_FLAGS[dtype], options), KINDS)
    for label, flags in (("Tasuki --exchange whole", ["--exchange", "whole"]),
                         ("Tasuki --wire-dtype fp16", WIRE)):
        measures[label] = lambda flags=flags: tasuki_steps(model, flags, options)
    if options.bfloat16:
        measures["Tasuki --wire-dtype fp16, bfloat16"] = lambda: tasuki_steps(
            model, [*WIRE, *DTYPE_FLAGS["bfloat16"]], options)
    found = {name: [] for name in measures}
    for turn in range(options.rounds):
        for name, measure in measures.items():
            found[name].append(measure())
            print(f"{model}, turn {turn + 1}: {name} {found[name][-1][0] * 1e3:.1f} ms",
                  file=sys.stderr)
    base = statistics.median(step for step, _ in found["Tasuki"])
    text = (f"## {model}, batch {MODELS[model][1]} a rank\n\n"
            "| | ms/step | min..max | x Tasuki's | MB sent per step |\n|-|-|-|-|-|\n")
    for name, values in found.items():
        steps = [step * 1e3 for step, _ in values]
        sent = statistics.median(each for _, each in values) * 1e-6
        text += (f"| {name} | {statistics.median(steps):.1f} | {min(steps):.1f}..{max(steps):.1f} | "
                 f"{statistics.median(steps) * 1e-3 / base:.2f} | {sent:.1f} |\n")
    return text


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--models", default="mlp,wrn_28_10")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--slots", default="1,1")
    parser.add_argument("--steps", type=int, default=20, help="of a turn, half of which are timed")
    parser.add_argument("--trial-steps", type=int, default=24, help="of Tasuki, before those")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a program")
    options = parser.parse_args()
    text = heading(f"Training on nodes {options.slots}, {options.rate}", options.build,
                   torches(options)) + "\n\n"
    text += "\n".join(compare(model, options) for model in options.models.split(","))
    publish(text, options.out)


if __name__ == "__main__":
    main()
