#!/usr/bin/env python3
"""The fault suite: real jobs that something happens to, and what must come of it.

    run.py [--build DIR] [--quick] [--list] [--runs N] [--patience X] [--seed N] [--table FILE]
           [CASE...]

Runs the cases (default: all) with four ranks on this machine and with two on each of two nodes made
of network namespaces (tests/cluster/run.sh), and prints a table in Markdown, which --table writes
to a file as well. CASE: a name, a number of the table, or either with @1 or @2 for one of the two
places. --quick: a few short cases, once each. --runs: repeats every case so often. --patience:
limits in seconds grow by this factor, for machines that do something else as well. --seed: of the
random moments, ranks and bits; without it each call has another one, which is printed. The exit
code is 1 if a case failed. TASUKI_CHAOS_MINUTES: how long the case chaos takes (default 10).

Each run is bounded and leaves nothing: no processes, mounts or files.
"""
import argparse
import math
import os
import pathlib
import platform
import random
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases  # noqa: E402,F401
from jobs import Failure  # noqa: E402
from others import others  # noqa: E402
from places import CLUSTER, ROOT, OneNode, TwoNodes  # noqa: E402
from registry import CASES  # noqa: E402
from training import Settings  # noqa: E402

PLACES = {1: OneNode(), 2: TwoNodes()}


def say(text):
    print(text, file=sys.stderr, flush=True)


def figure_text(figures, runs):
    """One cell of the table: how many runs did what was expected, and the largest figure."""
    numbers = [figure for figure in figures if not isinstance(figure, str)]
    texts = list(dict.fromkeys(figure for figure in figures if isinstance(figure, str)))
    if numbers:
        texts.append(f"at most {math.ceil(max(numbers) * 100) / 100:.2f} s")
    return f"{len(figures)}/{runs}" + (f", {', '.join(texts[:3])}" if texts else "")


def run_case(case, place, runs, seed):
    """(cell of the table, whether all runs did what was expected)"""
    figures, reasons = [], []
    for number in range(runs):
        start = time.monotonic()
        random.seed(f"{seed} {case.name} {place.name} {number}")
        try:
            figures.append(case.run(place, number))
            result = figures[-1] if isinstance(figures[-1], str) else f"{figures[-1]:.2f} s"
        except Exception as failure:  # a case that breaks has failed; the others go on
            kind = "" if isinstance(failure, Failure) else f"{type(failure).__name__}: "
            reasons.append(f"{kind}{failure}")
            result = f"FAILED: {reasons[-1]}"
        say(f"{case.name} @ {place.name}, run {number + 1} of {runs}: {result} "
            f"({time.monotonic() - start:.1f} s)")
    cell = figure_text(figures, runs)
    return (f"**{cell}: {reasons[0]}**" if reasons else cell), not reasons


def row(case, cells):
    words = [case.number, case.fault, case.expected, cells.get(1, "–"), cells.get(2, "–"),
             others(case.number) or "–"]
    return "| " + " | ".join(word.replace("|", "\\|").replace("\n", " ") for word in words) + " |"


HEAD = ("| # | fault | expected | 4 ranks on one node | 2 x 2 on two nodes | others |\n"
        "|---|---|---|---|---|---|")


def machine(seed):
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    return (f"{os.cpu_count()} cores, Linux {platform.release()}, {time.strftime('%Y-%m-%d')}"
            f"{f', commit {commit}' if commit else ''}; load at the start "
            f"{os.getloadavg()[0]:.1f}; --seed {seed}")


def can_have_nodes():
    """Why there can be no nodes here; empty if there can."""
    probe = subprocess.run([CLUSTER, "--slots", "1", "--", "true"], capture_output=True, text=True,
                           timeout=60)
    return probe.stdout.strip().splitlines()[-1] if probe.returncode == 77 else ""


def position(case):
    """In the table: 5, 5b, 6."""
    number = case.number.rstrip(string.ascii_lowercase)
    return int(number), case.number


def choose(names, is_quick):
    """(case, numbers of nodes) in the order of the table."""
    ordered = sorted(CASES.values(), key=position)
    if not names:
        return [(case, case.nodes) for case in ordered if case.quick or not is_quick]
    chosen = {}
    for name in names:
        wanted, _, nodes = name.partition("@")
        found = [case for case in CASES.values() if wanted in (case.name, case.number)]
        if not found or nodes not in ("", "1", "2"):
            say(f"run.py: no case is called '{name}'; --list shows them")
            sys.exit(64)
        for case in found:
            chosen.setdefault(case.name, set()).update([int(nodes)] if nodes else case.nodes)
    return [(case, sorted(chosen[case.name] & set(case.nodes)))
            for case in ordered if case.name in chosen]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, prog="run.py",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: parser.exit(64, f"run.py: {message}; --help says more\n")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="default: build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--patience", type=float, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    chosen = choose(arguments.cases, arguments.quick)
    if arguments.list:
        for case, nodes in chosen:
            print(f"{case.number:>4}  {case.name:<24} {case.runs:>3} x on "
                  f"{' and '.join(PLACES[n].name for n in nodes)}: {case.fault}")
        return 0
    without_nodes = can_have_nodes() if any(2 in nodes for _, nodes in chosen) else ""
    if without_nodes:
        say(f"two nodes: {without_nodes}")
    # Ends by SIGTERM as by an exception, so that processes and mounts go away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    Settings.build = arguments.build.absolute()
    Settings.patience = arguments.patience
    Settings.work = pathlib.Path(tempfile.mkdtemp(prefix="tasuki-faults-"))
    say(f"--seed {arguments.seed}")
    lines, is_good = [machine(arguments.seed), "", HEAD], True
    try:
        for case, nodes in chosen:
            cells = {}
            for number in nodes:
                if number == 2 and without_nodes:
                    cells[2] = "skipped"
                    continue
                runs = arguments.runs or (1 if arguments.quick else case.runs)
                cells[number], passed = run_case(case, PLACES[number], runs, arguments.seed)
                is_good = is_good and passed
            lines.append(row(case, cells))
            if arguments.table:
                arguments.table.write_text("\n".join(lines) + "\n")
    finally:
        shutil.rmtree(Settings.work, ignore_errors=True)
    print("\n".join(lines))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
