#!/usr/bin/env python3
"""How near the slowest kernels of gpu_step come to the GPU's limits: their time, and the shares of its peak that the
memory and the multiprocessors reach, as Nsight Compute (ncu) counts them.

    bench/gpu/kernel_limits.py build/bench/bench_gpu_step gpt2_small 8 bf16

It counts 150 kernels after the first 4000 (small networks have fewer), because the first step tries algorithms: gpt in
bf16 launches 1055 on the simulated GPU, and 121 in each later step. The GPU's clocks stay as they are. Prints Markdown.
Exit code 77 where ncu is missing, may not count (many machines keep that to their administrators) or has counted
nothing in time.
"""
import argparse
import collections
import csv
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from kernel_times import short

TIME = "gpu__time_duration.sum"
MEMORY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
# By the first letter of a unit: its versions write nsecond or ns, usecond or us, ...
MICROSECONDS = {"n": 1e-3, "u": 1, "m": 1e3, "s": 1e6}


def find_ncu():
    """In the path, CUDA's folder or its own; None if there is none."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = [shutil.which("ncu"), *glob.glob(f"{home}/bin/ncu"), *glob.glob("/opt/nvidia/nsight-compute/*/ncu")]
    return next(filter(None, found), None)


def output_of(command, limit):
    """What it has printed when it ends. After `limit` seconds it is interrupted, so that it may print what it has
    counted, and 3 s later ended, with what it has started."""
    with tempfile.TemporaryFile() as printed:
        with subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"},
                              preexec_fn=os.setpgrp) as process:
            try:
                process.wait(limit)
                end = ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGINT)
                end = f"no end in {limit:g} s"
            finally:
                try:
                    process.wait(3)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
        printed.seek(0)
        return printed.read().decode(errors="replace") + end


def read_launches(said):
    """Of ncu's CSV, in which every metric of a launch has a row, and other lines stand before and after:
    {launch: (kernel's name, {metric: value})}, times in microseconds. Launches without all metrics are left out."""
    launches = collections.defaultdict(dict)
    names = {}
    for row in csv.DictReader(line for line in said.splitlines() if line.startswith('"')):
        try:
            value = float(row["Metric Value"].replace(",", ""))  # 1,234.5
        except ValueError:
            continue  # "n/a"
        metric = row["Metric Name"]
        names[row["ID"]] = short(row["Kernel Name"])
        launches[row["ID"]][metric] = value * MICROSECONDS[row["Metric Unit"][0]] if metric == TIME else value
    return {launch: (names[launch], values) for launch, values in launches.items()
            if values.keys() >= {TIME, MEMORY, COMPUTE}}


def table(launches, most):
    """The kernels that take longest together; shares are means over their time."""
    found = collections.defaultdict(list)
    for name, values in launches.values():
        found[name].append(values)
    time_of = lambda each: sum(values[TIME] for values in each)
    whole = sum(map(time_of, found.values()))
    lines = ["| kernel | calls | us | share | memory | multiprocessors |", "|---|--:|--:|--:|--:|--:|"]
    for name, each in sorted(found.items(), key=lambda item: -time_of(item[1]))[:most]:
        time = time_of(each)
        memory, compute = (sum(values[metric] * values[TIME] for values in each) / time for metric in (MEMORY, COMPUTE))
        lines.append(f"| `{name}` | {len(each)} | {time:,.1f} | {time / whole:.1%} | {memory:.0f}% | {compute:.0f}% |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="gpu_step, as it was built")
    parser.add_argument("case", nargs="+", help="MODEL BATCH [PRECISION], as gpu_step takes them")
    parser.add_argument("--limit", type=float, default=120, help="seconds, after which ncu is interrupted")
    parser.add_argument("--most", type=int, default=10, help="rows of the table")
    options = parser.parse_args()
    ncu = find_ncu()
    if ncu is None:
        print("skipped: there is no ncu (Nsight Compute)")
        sys.exit(77)
    said = output_of([ncu, "--csv", "--metrics", f"{TIME},{MEMORY},{COMPUTE}", "--target-processes", "all",
                      "--clock-control", "none", "--launch-skip", "4000", "--launch-count", "150", "--kill", "yes",
                      str(options.program), *options.case, "--steps", "20"], options.limit)
    launches = read_launches(said)
    if not launches:
        lines = said.strip().splitlines() or ["nothing was said"]
        print(f"skipped: ncu counted nothing: {next((line for line in lines if '==ERROR==' in line), lines[-1])[:200]}")
        sys.exit(77)
    print(f"{' '.join(options.case)}, {len(launches)} kernels:\n")
    print(table(launches, options.most))


if __name__ == "__main__":
    main()
