#!/usr/bin/env python3
"""The kernels of one training step of gpu_step, the slowest first: how often each ran and for how long.

    bench/gpu/kernel_times.py build/bench/bench_gpu_step gpt 64 bf16 --graph

libtasuki_kernel_trace.so, which is built beside the program, records them by CUPTI. A step is what repeats at the
end. Prints Markdown; "between kernels" is time in which the GPU does nothing. Exit code 77 without CUPTI.
"""
import argparse
import collections
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def folder_of_cupti():
    """Of CUDA's folder or of NVIDIA's Python packages; None where the loader's path is to be taken."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    patterns = [f"{home}/lib64", f"{home}/lib", f"{home}/targets/*/lib", f"{home}/extras/CUPTI/lib64",
                *(f"{path}/nvidia/*/lib" for path in sys.path if path)]
    found = [path for pattern in patterns for path in glob.glob(f"{pattern}/libcupti.so.*")]
    return os.path.dirname(found[0]) if found else None


def read_trace(path):
    """(start, end, name) of each kernel, in the order of their starts."""
    kernels = []
    for line in path.read_text().splitlines():
        start, end, name = line.split(" ", 2)
        kernels.append((int(start), int(end), name))
    return sorted(kernels)


def last_step(kernels, steps):
    """The longest sequence of kernels that is there `steps` times at the end; all, if there is none."""
    names = [name for _, _, name in kernels]
    for count in range(len(names) // steps, 0, -1):
        end = names[-count:]
        if all(names[len(names) - (i + 1) * count:len(names) - i * count] == end for i in range(1, steps)):
            return kernels[-count:]
    return kernels


def short(name):
    """Without return type, parameters and namespace, at most 100 characters."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)$", "", name)
    return name.replace("tasuki::kernels::", "").replace("(anonymous namespace)::", "").replace("|", "/")[:100]


def table(kernels, most):
    found = collections.defaultdict(list)
    for start, end, name in kernels:
        found[short(name)].append(end - start)
    busy, until = 0, kernels[0][0]
    for start, end, _ in kernels:  # some run beside each other
        busy += max(0, end - max(start, until))
        until = max(until, end)
    whole = until - kernels[0][0]
    lines = ["| kernel | calls | us | share |", "|---|--:|--:|--:|"]

    def row(name, calls, time):
        lines.append(f"| {name} | {calls} | {time / 1000:,.1f} | {time / whole:.1%} |")

    slowest = sorted(found.items(), key=lambda item: -sum(item[1]))
    for name, times in slowest[:most]:
        row(f"`{name}`", len(times), sum(times))
    others = [times for _, times in slowest[most:]]
    if others:
        row(f"{len(others)} others", sum(map(len, others)), sum(map(sum, others)))
    row("between kernels", "", whole - busy)
    row("**the step**", len(kernels), whole)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="gpu_step, as it was built")
    parser.add_argument("case", nargs="+", help="MODEL BATCH [PRECISION], as gpu_step takes them")
    parser.add_argument("--graph", action="store_true", help="of a recorded step")
    parser.add_argument("--most", type=int, default=14, help="rows of the table")
    options = parser.parse_args()
    places = [options.program.parent, options.program.parent.parent / "lib"]  # of a build, of a bundle
    library = next((place / "libtasuki_kernel_trace.so" for place in places if (place / "libtasuki_kernel_trace.so").exists()), None)
    if library is None:
        print(f"skipped: there is no libtasuki_kernel_trace.so beside {options.program} (it was built without CUPTI)")
        sys.exit(77)
    environment = {**os.environ, "CUDA_INJECTION64_PATH": str(library.resolve())}
    folder = folder_of_cupti()
    if folder:
        environment["LD_LIBRARY_PATH"] = f"{os.environ.get('LD_LIBRARY_PATH', '')}:{folder}".lstrip(":")
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch) / "trace"
        environment["TASUKI_KERNEL_TRACE"] = str(trace)
        steps = 8 if options.graph else 4
        command = [options.program, *options.case, "--steps", str(steps)]
        ran = subprocess.run(command + ["--graph"] * options.graph, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)
        said = ran.stdout.strip()
        if ran.returncode != 0 or not trace.exists():
            print(f"skipped: {said[-300:]}" if "libcupti" in said else
                  f"kernel_times.py: no kernel was recorded, exit code {ran.returncode}: {said[-500:]}")
            sys.exit(77 if "libcupti" in said else 1)
        kernels = read_trace(trace)
    if not kernels:
        sys.exit(f"kernel_times.py: no kernel was recorded: {said[-500:]}")
    print(f"{' '.join(options.case)}{', recorded' if options.graph else ''}:\n")
    print(table(last_step(kernels, steps), options.most))


if __name__ == "__main__":
    main()
