#!/usr/bin/env python3
"""Fuzzes parsers with libFuzzer: arbitrary bytes must be accepted or refused, and nothing else.

    tests/fuzz/run.py [--seconds N] [--build DIR] [--findings DIR] [NAME...]

Runs the harnesses DIR/fuzz_NAME (default: all in build/tests/fuzz), N seconds each (default 600),
one after the other, from the inputs of make_corpus.py and from those that once found something
(tests/fuzz/regressions/NAME). Prints a table in Markdown. An input that finds something is written
to the folder of --findings (default: build/fuzz-findings) and the exit code is 1.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MEMORY_MB, CALL_MB = 2048, 1024  # of a harness in all, and for one allocation
SLOW_SECONDS = 20  # for one input
MOST_BYTES = 8192  # of an input


def fuzz(program, name, seconds, corpus, findings, folder):
    """(row of the table, whether nothing was found)"""
    grown = folder / name
    grown.mkdir()
    findings.mkdir(parents=True, exist_ok=True)
    known = HERE / "regressions" / name
    command = [program, f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}",
               f"-rss_limit_mb={MEMORY_MB}", f"-malloc_limit_mb={CALL_MB}",
               f"-timeout={SLOW_SECONDS}", f"-artifact_prefix={findings}/{name}-",
               "-print_final_stats=1", grown, corpus / name, *([known] if known.is_dir() else [])]
    ran = subprocess.run(command, env={**os.environ, "TMPDIR": str(folder)},
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                         errors="replace", timeout=seconds + 300)
    executions = re.findall(r"stat::number_of_executed_units: (\d+)", ran.stderr)
    # "#1048576  pulse  cov: 512 ft: 1700 corp: 310/40Kb ..."
    reached = re.findall(r"cov: (\d+) ft: (\d+)", ran.stderr) or [("0", "0")]
    found = "none" if ran.returncode == 0 else f"exit code {ran.returncode}"
    if ran.returncode != 0:
        print("\n".join(ran.stderr.splitlines()[-60:]), file=sys.stderr)
        places = re.findall(r"Test unit written to (\S+)", ran.stderr)
        found += "".join(f", {place}" for place in places)
    count = int(executions[-1]) if executions else 0
    return (f"| {name} | {count:,} | {count / max(seconds, 1):,.0f} | {reached[-1][0]} | "
            f"{reached[-1][1]} | {found} |"), ran.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: parser.exit(64, f"run.py: {message}; --help says more\n")
    parser.add_argument("--seconds", type=int, default=600)
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
            row, is_good = fuzz(programs[name], name, options.seconds, corpus,
                                options.findings.absolute(), folder)
            print(row, flush=True)
            is_clean = is_clean and is_good
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
