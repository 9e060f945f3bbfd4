#!/usr/bin/env python3
"""Step times on network namespaces of this machine, next to what apps/tasuki-simulate predicts for them.

    bench/scaling.py --quick
    bench/scaling.py --models mlp,lenet --placements 1x1,2x1,2x2 --rates 100mbit,1gbit,10gbit

Each run trains a few dozen steps under tests/cluster/run.sh with --trace. Its record is kept in a
separate folder in --out, and a later start of this script skips runs that have a record. Placements
are nodes x ranks per node; each rank has one thread. Step times are medians of the later half of the
traced steps.

A prediction is calibrated on two runs with the row's model, batch and rate: 1x1, and 2x1 with
--exchange whole and float32. Both are added if the grid lacks them. Rows on one node take the
compute times of 2x1 at 1 Gbit/s.

The script writes table.md, plot.gp and, if gnuplot is installed, plot.svg. Rows with more ranks than
cores are marked with *: their ranks take turns, which the model does not know about.
"""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Program with its flags, and examples per rank.
MODELS = {
    "mlp": (["train_mnist"], 100),
    "lenet": (["train_lenet"], 256),
    "cnn10": (["train_cifar", "--arch", "cnn10"], 32),
    "wrn_28_10": (["train_cifar", "--arch", "wrn_28_10"], 8),
}
CHOICES = {
    "models": list(MODELS),
    "placements": ["1x1", "1x2", "2x1", "2x2", "3x1", "3x2", "4x1", "4x2"],
    "rates": ["100mbit", "1gbit", "10gbit"],
    "scaling": ["weak", "strong"],
    "exchange": ["whole", "overlapped"],
    "wire": ["fp32", "fp16", "bf16"],
    "communicators": ["hierarchical", "two_dimensional", "flat"],
}
ALL = {**CHOICES, "wire": ["fp32", "fp16"], "communicators": ["hierarchical", "flat"]}
QUICK = {"models": ["mlp"], "placements": ["1x1", "2x1"], "rates": ["100mbit", "1gbit"],
         "scaling": ["weak"], "exchange": ["whole", "overlapped"], "wire": ["fp32"],
         "communicators": ["hierarchical"]}


class Run:
    """One training; equal runs have equal names."""

    def __init__(self, model, placement, rate, scaling, exchange, wire, communicator, batch=None):
        self.model, self.placement, self.scaling = model, placement, scaling
        self.nodes, self.ranks_per_node = map(int, placement.split("x"))
        self.ranks = self.nodes * self.ranks_per_node
        self.rate = rate if self.nodes > 1 else "-"
        self.exchange = exchange if self.ranks > 1 else "-"
        self.wire = wire if self.nodes > 1 else "fp32"
        self.communicator = communicator if self.ranks > 1 else "-"
        self.reference = batch or MODELS[model][1]  # examples of a rank alone
        self.batch = self.reference
        if scaling == "strong":
            self.batch = max(1, self.batch // self.ranks)
        if self.ranks == 1:
            self.scaling = "weak"

    def name(self):
        return "_".join([self.model, f"b{self.batch}", self.placement, self.rate, self.exchange,
                         self.wire, self.communicator]).replace("-", "none")

    def command(self, options, folder):
        program, *flags = MODELS[self.model][0]
        words = [ROOT / "tests/cluster/run.sh", "--nodes", self.nodes, "--slots",
                 self.ranks_per_node]
        if self.nodes > 1:
            words += ["--rate", self.rate]
        words += ["--", options.build.resolve() / "apps" / program, *flags, "--threads", 1,
                  "--batchsize", self.batch, "--max-iterations", options.steps + 4,
                  "--trace", folder / "trace.json", "--trace-steps", options.steps,
                  "--test-examples", 100, "--quiet", "--overwrite", "--out", folder / "result"]
        if self.ranks > 1:
            words += ["--exchange", self.exchange, "--wire-dtype", self.wire,
                      "--communicator", self.communicator]
        return [str(word) for word in words]


def measured(trace):
    """Medians of the later half of the steps, over all ranks: seconds of a step, and of waiting for
    the exchange after its backward pass."""
    steps, exposed = [], []
    events = [event for event in trace["traceEvents"] if "ts" in event]
    for rank in {event["pid"] for event in events}:
        own = sorted((event for event in events if event["pid"] == rank), key=lambda e: e["ts"])
        begins = [event["ts"] for event in own if event["name"] == "input"]
        ends = [event["ts"] + event["dur"] for event in own if event["name"] == "update"]
        waits = [event["dur"] for event in own if event["name"] == "exchange"]
        took = [end - begin for begin, end in zip(begins, ends)]
        steps += took[len(took) // 2:]
        exposed += waits[len(waits) // 2:]
    return {"step": statistics.median(steps) * 1e-6,
            "exposed": statistics.median(exposed) * 1e-6 if exposed else 0}


def do(run, options):
    """The record of a run, made if there is none; None where it failed."""
    folder = options.out.resolve() / run.name()
    record = folder / "record.json"
    if record.exists():
        return json.loads(record.read_text())
    if options.tables_only:
        return None
    print(f"{run.name()} ...", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        ended = subprocess.run(run.command(options, folder), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=options.timeout,
                               env={**os.environ, **MPI_ENVIRONMENT})
    except subprocess.TimeoutExpired:
        print(f"{run.name()}: not done after {options.timeout} s (--timeout)", flush=True)
        return None
    (folder / "output.log").write_text(ended.stdout)
    if ended.returncode == 77:
        sys.exit(f"scaling.py: {ended.stdout.strip()}")
    if ended.returncode != 0:
        print(f"{run.name()}: failed, {folder}/output.log", flush=True)
        return None
    found = measured(json.loads((folder / "trace.json").read_text()))
    partial = record.with_suffix(".partial")
    partial.write_text(json.dumps(found) + "\n")
    partial.rename(record)
    return found


def simulate(options, *flags):
    """What apps/tasuki-simulate writes as JSON; None if it fails, for example for lack of ranges."""
    out = options.out / "predicted.json"
    words = [options.build / "apps/tasuki-simulate", "--json", out, *flags]
    ended = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    if ended.returncode != 0:
        print(f"simulate: {ended.stdout.strip()}", flush=True)
        return None
    return json.loads(out.read_text())


def calibrating(run, options):
    """The runs that calibrate a prediction for `run`; they have the same batch per rank."""
    rate = run.rate if run.nodes > 1 else "1gbit"
    return [Run(run.model, placement, rate, "weak", "whole", "fp32", "hierarchical", run.batch)
            for placement in ("1x1", "2x1")]


def predicted(run, options):
    """Seconds of a step; None if a run for the calibration is missing."""
    one, two = calibrating(run, options)
    if run.ranks == 1 or not (do(one, options) and do(two, options)):
        return None
    traces = ["--single", options.out / one.name() / "trace.json",
              "--trace", options.out / two.name() / "trace.json"]
    flags = ["--ranks", run.ranks, "--ranks-per-node", run.ranks_per_node, "--exchange",
             run.exchange, "--wire-dtype", run.wire, "--communicator",
             "flat" if run.communicator == "flat" else "hierarchical"]
    all_of_it = simulate(options, *traces, *flags)
    return all_of_it and all_of_it["rows"][0]["step"]


def table(runs, options):
    """Markdown, and rows of numbers for the plot: ranks, examples per second, model."""
    cores = len(os.sched_getaffinity(0))
    lines = ["| model | batch per rank | nodes x ranks | rate | exchange | wire | communicator "
             "| step ms | exposed ms | examples/s | efficiency | predicted ms | error |",
             "|-|-|-|-|-|-|-|-|-|-|-|-|-|"]
    points = []
    for run in runs:
        found = do(run, options)
        if not found:
            continue
        speed = run.ranks * run.batch / found["step"]
        alone = do(Run(run.model, "1x1", "-", "weak", "-", "fp32", "-", run.reference), options)
        efficiency = (f"{speed / run.ranks / run.reference * alone['step']:.1%}" if alone else "-")
        model = predicted(run, options)
        calibrates = run.name() in [each.name() for each in calibrating(run, options)]
        error = f"{model / found['step'] - 1:+.1%}" if model else "-"
        lines.append(
            f"| {run.model}{'*' if run.ranks > cores else ''} | {run.batch} | {run.placement} "
            f"| {run.rate} | {run.exchange} | {run.wire} | {run.communicator} "
            f"| {found['step'] * 1e3:.2f} | {found['exposed'] * 1e3:.2f} | {speed:.0f} "
            f"| {efficiency} | {f'{model * 1e3:.2f}' if model else '-'} "
            f"| {error}{' (calibrates)' if calibrates and model else ''} |")
        points.append((run, speed))
    return "\n".join(lines) + "\n", points


def plot(points, options):
    """Examples per second over ranks, a line for each kind of run; 1x1 belongs to all of a model."""
    lines = {}
    for run, speed in points:
        if run.ranks == 1:
            continue
        title = f"{run.model} {run.scaling} {run.rate} {run.exchange} {run.wire} {run.communicator}"
        lines.setdefault((run.model, title), []).append((run.ranks, speed))
    for run, speed in points:
        if run.ranks == 1:
            for (model, _), values in lines.items():
                if model == run.model:
                    values.append((1, speed))
    text = [f"set terminal svg size 900,600\nset output '{options.out / 'plot.svg'}'",
            "set xlabel 'ranks'\nset ylabel 'examples per second'\nset logscale y",
            "set key outside noenhanced\nset xtics 1"]
    blocks = [f"${i} << END\n" + "\n".join(f"{ranks} {speed}" for ranks, speed in sorted(values)) +
              "\nEND" for i, values in enumerate(lines.values())]
    text += [block.replace("$", "$line", 1) for block in blocks]
    text.append("plot " + ", ".join(f"$line{i} with linespoints title '{title}'"
                                    for i, (_, title) in enumerate(lines)))
    script = options.out / "plot.gp"
    script.write_text("\n".join(text) + "\n")
    if not lines:
        return
    if not shutil.which("gnuplot"):
        print(f"gnuplot is not installed (Debian's gnuplot-nox); its script is {script}")
        return
    subprocess.run(["gnuplot", script], check=True)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/scaling"))
    parser.add_argument("--quick", action="store_true",
                        help="the MLP on 1x1 and 2x1 at 100 Mbit/s and 1 Gbit/s, weak scaling")
    for name, choices in CHOICES.items():
        parser.add_argument(f"--{name}", metavar="LIST", help="of " + ", ".join(choices))
    parser.add_argument("--batch", type=int, help="examples per rank instead of the model's own")
    parser.add_argument("--steps", type=int, default=40, help="traced steps of each run")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a run")
    parser.add_argument("--tables-only", action="store_true", help="start no run")
    options = parser.parse_args()
    if options.steps < 8:
        parser.error(f"--steps: expected at least 8, found {options.steps}")
    grid = {}
    for name, choices in CHOICES.items():
        given = getattr(options, name)
        grid[name] = given.split(",") if given else (QUICK if options.quick else ALL)[name]
        for value in grid[name]:
            if value not in choices:
                parser.error(f"--{name}: expected {', '.join(choices)}, found '{value}'")
    return options, grid


def main():
    options, grid = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = {}
    for values in itertools.product(*grid.values()):
        run = Run(*values, options.batch)
        runs.setdefault((run.name(), run.scaling), run)
    for run in runs.values():
        do(run, options)
    text, points = table(runs.values(), options)
    (options.out / "table.md").write_text(text)
    print(text, end="")
    plot(points, options)
    print(f"The table is in {options.out / 'table.md'}")
    return 0 if len(points) == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
