#!/usr/bin/env python3
"""Training steps on a GPU against PyTorch on the same GPU, in one run: examples a second with steps that
are asked for one by one (eager) against PyTorch's eager mode, with recorded steps (graph) against the
faster of torch.compile and a CUDA graph of the whole step, and the share of a step's bound: its products at
the GPU's peak, and after them its update at the memory's bandwidth. What activations move is left out, so networks
that compute little with each read low (cnn10, DCGAN). Transformers are measured with our own kernels for
attention, too; PyTorch's have the fastest of its backends for it.

What the aims compare comes first. Prints Markdown; --out writes it to a file too. Without PyTorch its columns stay
empty. Exit code 1 if a measurement of ours failed, 77 without a GPU.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MODELS = [("mlp", 100), ("lenet", 256), ("cnn10", 128), ("cnn10", 1024), ("vgg_small", 128),
          ("wrn_28_10", 128), ("gpt", 64), ("gpt2_small", 8), ("lstm", 64), ("dcgan", 128)]
PRECISIONS = ["fp32", "tf32", "bf16"]
# What is aimed at, of our recorded steps: times PyTorch's eager mode, times the faster of its others.
AIMS = {("mlp", 100, "fp32"): (5, 1.3), ("cnn10", 128, "bf16"): (None, 1.0),
        ("cnn10", 1024, "bf16"): (None, 1.0), ("gpt", 64, "bf16"): (None, 0.8),
        ("wrn_28_10", 128, "bf16"): (None, 1.0)}  # last: torch.compile took more than 28 s for it
# Without an aim, but asked for before the rest.
NEXT = [("gpt2_small", 8, "bf16"), ("lstm", 64, "bf16"), ("dcgan", 128, "bf16")]


def gpt_products(layers, width, context, symbols):
    """A text's; each symbol attends to half of the context on average."""
    return context * (layers * (12 * width ** 2 + context * width) + width * symbols)


# Multiplications of convolutions, linear layers and attention in one example's forward pass; of
# DCGAN's: an image is generated, and a real one and this one are judged.
PRODUCTS = {"mlp": 1_794_000, "lenet": 2_250_360, "cnn10": 266_013_184,
            "vgg_small": 194_717_696, "wrn_28_10": 5_243_328_768,
            "gpt": gpt_products(4, 256, 128, 256), "gpt2_small": gpt_products(12, 768, 1024, 50304),
            "lstm": 2 * 32 * 8 * 512 ** 2, "dcgan": 534_577_152}
# Bytes of memory that an update moves for each parameter: weights, gradients and states are read, weights and states
# written; and the copy in 16 bits.
CONVNETS = ("lenet", "cnn10", "vgg_small", "wrn_28_10")
UPDATES = {model: 5 * 4 if model in CONVNETS else 7 * 4 for model in PRODUCTS}
TRANSFORMERS = ("gpt", "gpt2_small")
OWN = "Tasuki graph, own attention"
MODES = ["eager", "graph", "compile"]

# From NVIDIA's data sheets by part of the name that nvidia-smi gives, the first that fits: dense TFLOP/s in float32
# without tensor cores, TF32 and bfloat16, and the memory's GB/s.
LIMITS = [("GH200", (67, 495, 989), 4000), ("H200", (67, 495, 989), 4800), ("H100 PCIe", (51, 378, 756), 2000),
          ("H100 NVL", (60, 418, 835), 3900), ("H100", (67, 495, 989), 3350), ("A100", (19.5, 156, 312), 2039),
          ("L40S", (91.6, 183, 362), 864), ("RTX 4090", (82.6, 82.6, 165), 1008)]


def limits(name):
    """TFLOP/s by precision, and the memory's GB/s; None for a GPU that is not in the list."""
    for part, peaks, bandwidth in LIMITS:
        if part in name:
            return dict(zip(PRECISIONS, peaks)), bandwidth
    return None


def limits_in_words(name, precisions):
    found = limits(name)
    if found is None:
        return f"the limits of {name} are not known here, so no shares of the bound are given"
    peaks, bandwidth = found
    said = [f"{peaks[precision]:g} TFLOP/s in {precision}" for precision in PRECISIONS if precision in precisions]
    return f"limits of {name} by its data sheet: {', '.join([*said, f'{bandwidth} GB/s'])}"


def bound(name, case, parameters):
    """The least seconds of a step; None where the GPU's limits are not known."""
    model, batch, precision = case
    found = limits(name)
    if found is None:
        return None
    peaks, bandwidth = found
    # A product is two operations; the backward pass takes two forward passes.
    products = 6 * batch * PRODUCTS[model] / (peaks[precision] * 1e12)
    moved = parameters * (UPDATES[model] + (2 if precision == "bf16" else 0))
    return products + moved / (bandwidth * 1e9)


def lies_channels_last(model, precision):
    """Whether images lie channels last: as ours do on tensor cores."""
    return model in (*CONVNETS, "dcgan") and precision != "fp32"


def command(program, seconds, case, who):
    """What measures a case; `program` is ours."""
    model, batch, precision = case
    measured = [model, batch, precision, "--seconds", seconds]
    if who == "Tasuki eager":
        return [program, *measured]
    if who == "Tasuki graph":
        return [program, *measured, "--graph"]
    if who == OWN:
        return ["env", "TASUKI_GPU_ATTENTION=own", program, *measured, "--graph"]
    order = ["--channels-last"] if lies_channels_last(model, precision) else []
    return [sys.executable, HERE / "peer_gpu_step.py", *measured, "--mode", who, *order]


def most_seconds(who):
    """Of a measurement with its start."""
    return 120 if who == "compile" else 60


def run(command, limit):
    """The command's JSON, or the last line of what it said instead. Nothing that it started is left
    afterwards: torch.compile starts worker processes."""
    try:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp)
    except OSError as error:
        return str(error)
    with process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return f"no result in {limit:.0f} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # none is left
    if process.returncode == 0:
        try:
            return json.loads(out.splitlines()[-1])
        except (IndexError, ValueError):
            return f"printed no JSON: {out[-200:]!r}"
    said = (err or out).strip().splitlines()
    return said[-1][:300] if said else f"exit code {process.returncode}"


def speed(result):
    return result["examples_per_second"] if isinstance(result, dict) else None


def ratio(ours, theirs):
    return ours / theirs if ours and theirs else None


def cell(value, text):
    return text.format(value) if value is not None else "-"


def verdict(case, found):
    """Of a case's two ratios to PyTorch, against what is aimed at."""
    aims = [(aim, ratio) for aim, ratio in zip(AIMS.get(case, ()), found) if aim]
    return "; ".join(f"{aim} x: " + ("-" if ratio is None else "met" if ratio >= aim else "missed")
                     for aim, ratio in aims)


def all_cases(precisions):
    every = [*AIMS, *NEXT, *((*model, precision) for precision in reversed(PRECISIONS) for model in MODELS)]
    return [case for case in dict.fromkeys(every) if case[2] in precisions]


def stage(case, who):
    """When a measurement is due, as the time on a GPU may not suffice for all: (0) what the aims compare, (1)
    recorded steps of NEXT, (2) our own attention, (3) torch.compile, which takes long to start, for the aims,
    (4) the other steps of these cases, (5) other cases, (6) torch.compile for them."""
    to_eager, _ = AIMS.get(case, (None, None))
    if who == OWN:
        return 2
    if who == "compile":
        return 3 if case in AIMS else 6
    if case not in AIMS and case not in NEXT:
        return 5
    if who in ("Tasuki graph", "graph") or (who == "eager" and to_eager):
        return 0 if case in AIMS else 1
    return 4


def schedule(cases, modes):
    """(case, who computes it), in the order of stage(); `modes` are PyTorch's."""
    found = []
    for case in cases:
        found += [(case, who) for who in ("Tasuki graph", *reversed(modes), "Tasuki eager")]
        if case[0] in TRANSFORMERS and case[2] == "bf16":
            found.append((case, OWN))
    return sorted(found, key=lambda measurement: stage(*measurement))


def case_of(text):
    """MODEL:BATCH:PRECISION"""
    try:
        model, batch, precision = text.split(":")
        case = (model, int(batch), precision)
    except ValueError:
        case = (None, 0, None)
    if case[0] not in PRODUCTS or case[1] < 1 or case[2] not in PRECISIONS:
        raise argparse.ArgumentTypeError(
            f"expected MODEL:BATCH:PRECISION ({', '.join(PRODUCTS)}; {', '.join(PRECISIONS)}), found '{text}'")
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="gpu_step, as it was built")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--budget", type=float, default=1e9,
                        help="begin no measurement after so many seconds")
    parser.add_argument("--precision", choices=PRECISIONS, action="append")
    parser.add_argument("--case", type=case_of, action="append",
                        help="MODEL:BATCH:PRECISION; several times for several, else all")
    parser.add_argument("--mode", choices=MODES, action="append",
                        help="of PyTorch; several times for several, else all")
    options = parser.parse_args()
    start = time.monotonic()
    cases = options.case or all_cases(options.precision or PRECISIONS)

    if not shutil.which("nvidia-smi"):
        print("skipped: there is no nvidia-smi, and so no GPU")
        sys.exit(77)
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         stdout=subprocess.PIPE, text=True).stdout.splitlines()
    if not gpu:
        print("skipped: nvidia-smi lists no GPU")
        sys.exit(77)
    name = gpu[0].split(",")[0]
    has_torch = subprocess.run([sys.executable, "-c", "import torch"],
                               stderr=subprocess.DEVNULL).returncode == 0
    modes = (options.mode or MODES) if has_torch else []

    lines = [f"{gpu[0]}; PyTorch {'here' if has_torch else 'is not installed'}; "
             f"{options.seconds:g} s a measurement; examples a second; share of the bound of the recorded "
             "steps: products at the dense peak, then the update at the memory's bandwidth, without what activations "
             "move (so cnn10 and dcgan read low)", "",
             "| model | batch | precision | Tasuki eager | PyTorch eager | ratio | Tasuki graph | "
             "to PyTorch eager | torch.compile | PyTorch graph | to the faster | share of bound | aim |",
             "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"]
    notes, remarks, results, failed = [], [], {}, False

    def write():
        ends = [limits_in_words(name, {case[2] for case in results}), *notes, *remarks]
        rows = [row(case) for case in cases if case in results]
        text = "\n".join(lines + rows + [part for end in ends for part in ("", end)]) + "\n"
        if options.out:
            options.out.write_text(text)
        return text

    def row(case):
        model, batch, precision = case
        speeds = {who: speed(result) for who, result in results[case].items()}
        recorded = [speeds[mode] for mode in ("compile", "graph") if speeds.get(mode)]
        eager, graph, peer = (speeds.get(who) for who in ("Tasuki eager", "Tasuki graph", "eager"))
        to_eager, to_faster = ratio(graph, peer), ratio(graph, max(recorded, default=None))
        least = bound(name, case, results[case]["Tasuki graph"]["parameters"]) if graph else None
        share = least * graph / batch if least else None
        cells = [cell(eager, "{:,.0f}"), cell(peer, "{:,.0f}"),
                 cell(ratio(eager, peer), "{:.2f}"), cell(graph, "{:,.0f}"),
                 cell(to_eager, "{:.2f}"), cell(speeds.get("compile"), "{:,.0f}"),
                 cell(speeds.get("graph"), "{:,.0f}"), cell(to_faster, "{:.2f}"),
                 cell(share, "{:.1%}"), verdict(case, (to_eager, to_faster))]
        return f"| {model} | {batch} | {precision} | {' | '.join(cells)} |"

    measurements = schedule(cases, modes)
    for i, (case, who) in enumerate(measurements):
        what = f"{case[0]}, batch {case[1]}, {case[2]}: {who}"
        remaining = options.budget - (time.monotonic() - start)
        if remaining < 10:
            remarks.append(f"left out for lack of time: {len(measurements) - i} of {len(measurements)} measurements, "
                           f"from {what} on")
            break
        limit = min(most_seconds(who), remaining)
        result = run(command(options.program, options.seconds, case, who), limit)
        results.setdefault(case, {})[who] = result
        said = result if isinstance(result, str) else f"{result['examples_per_second']:,.0f} a second"
        print(f"{what}: {said}", file=sys.stderr, flush=True)
        if isinstance(result, str):
            notes.append(f"{what}: {result}")
            # PyTorch's failures are only noted, and so is what the budget has ended.
            failed = failed or (who.startswith("Tasuki") and limit == most_seconds(who))
        elif who == OWN or result.get("attention"):
            remarks.append(f"{what}: {said}" + (f", {result['attention']}" if result.get("attention") else ""))
        write()
    print(write())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
