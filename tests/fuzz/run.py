#!/usr/bin/env python3
"""Fuzzes parsers with libFuzzer: arbitrary bytes must be accepted or refused, and nothing else.

    tests/fuzz/run.py [--seconds N] [--seed N] [--build DIR] [--findings DIR] [NAME...]

Runs the harnesses DIR/fuzz_NAME (default: all in build/tests/fuzz), N seconds each (default 600),
one after the other, from the inputs of make_corpus.py and from those that once found something
(tests/fuzz/regressions/NAME). Inputs follow from --seed, which is another one each time if it is not
given. Prints a table in Markdown. An input that finds something is written to the folder of
--findings (default: build/fuzz-findings) and the exit code is 1.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MEMORY_MB, CALL_MB = 2048, 1024  # of a harness in all, and for one allocation
# libhdf5 asks for as much memory as a damaged file says, and reports an allocation that fails.
ANY_CALL = {"hdf5"}
SLOW_SECONDS = 20  # for one input
MOST_BYTES = 8192  # of an input


def run(command, environment, timeout):
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=timeout)


def is_fault_of_libhdf5(report):
    """Whether the harness ended within libhdf5, whose own faults are counted only."""
    frames = re.findall(r"^ +#\d+ .*", report, re.MULTILINE)
    ours = [frame for frame in frames if "libhdf5" in frame or "tasuki::" in frame]
    return bool(ours) and "libhdf5" in ours[0]


def fuzz(program, name, seconds, seed, corpus, findings, folder):
    """(row of the table, whether nothing was found)"""
    grown = folder / name
    grown.mkdir()
    findings.mkdir(parents=True, exist_ok=True)
    known = HERE / "regressions" / name
    environment = {**os.environ, "TMPDIR": str(folder)}
    call_mb = CALL_MB
    if name in ANY_CALL:
        environment["ASAN_OPTIONS"], call_mb = "allocator_may_return_null=1", 2**30
    seeds = run([program, "-runs=0", corpus / name], environment, 300)
    accepted = re.findall(r"^accepted: (\d+)", seeds.stderr, re.MULTILINE)
    if seeds.returncode == 0 and (not accepted or int(accepted[-1]) == 0):
        return f"| {name} | 0 | 0 | 0 | 0 | it accepts no input of make_corpus.py |", False
    begin, count, library_faults = time.monotonic(), 0, 0
    while True:
        left = max(1, round(seconds - (time.monotonic() - begin)))
        ran = run([program, f"-max_total_time={left}", f"-seed={seed}", f"-max_len={MOST_BYTES}",
                   f"-rss_limit_mb={MEMORY_MB}", f"-malloc_limit_mb={call_mb}",
                   f"-timeout={SLOW_SECONDS}", f"-artifact_prefix={findings}/{name}-",
                   "-print_final_stats=1", grown, corpus / name,
                   *([known] if known.is_dir() else [])], environment, left + 300)
        executions = re.findall(r"stat::number_of_executed_units: (\d+)", ran.stderr)
        count += int(executions[-1]) if executions else 0
        if ran.returncode == 0 or not is_fault_of_libhdf5(ran.stderr):
            break
        library_faults += 1
        seed += seed != 0
        if time.monotonic() - begin >= seconds:
            break
    # "#1048576  pulse  cov: 512 ft: 1700 corp: 310/40Kb ..."
    reached = re.findall(r"cov: (\d+) ft: (\d+)", ran.stderr) or [("0", "0")]
    is_clean = ran.returncode == 0 or is_fault_of_libhdf5(ran.stderr)
    found = "none" if is_clean else f"exit code {ran.returncode}"
    if not is_clean:
        print("\n".join(ran.stderr.splitlines()[-60:]), file=sys.stderr)
        places = re.findall(r"Test unit written to (\S+)", ran.stderr)
        found += "".join(f", {place}" for place in places)
    if library_faults:
        found += f"; {library_faults} faults of libhdf5 itself"
    return (f"| {name} | {count:,} | {count / max(seconds, 1):,.0f} | {reached[-1][0]} | "
            f"{reached[-1][1]} | {found} |"), is_clean


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: parser.exit(64, f"run.py: {message}; --help says more\n")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0, help="0 (default): by the clock")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/tests/fuzz")
    parser.add_argument("--findings", type=pathlib.Path, default=ROOT / "build/fuzz-findings")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()

    programs = {path.name.removeprefix("fuzz_"): path
                for path in sorted(options.build.glob("fuzz_*"))
                if path.is_file() and os.access(path, os.X_OK)}
    for name in options.names:
        if name not in programs:
            parser.exit(64, f"run.py: no harness is called {name}; there are: "
                            f"{', '.join(programs) or f'none in {options.build}'}\n")
    if not programs:
        print(f"skipped: no harnesses in {options.build} (they need clang++ and its libFuzzer: "
              "apt-get install clang libclang-rt-dev)")
        return 77
    is_clean = True
    with tempfile.TemporaryDirectory(prefix="tasuki-fuzz-") as place:
        folder = pathlib.Path(place)
        corpus = folder / "corpus"
        subprocess.run([sys.executable, HERE / "make_corpus.py", corpus], check=True)
        print("| harness | executions | per second | edges covered | features | found |\n"
              "|---|--:|--:|--:|--:|---|", flush=True)
        for name in options.names or programs:
            row, is_good = fuzz(programs[name], name, options.seconds, options.seed,
                                corpus, options.findings.absolute(), folder)
            print(row, flush=True)
            is_clean = is_clean and is_good
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
