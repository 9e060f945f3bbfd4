#!/usr/bin/env python3
"""The fault suite: real jobs that something happens to, and what must come of it.

    run.py [--build DIR] [--quick] [--list] [--runs N] [--patience X] [--seed N] [--table FILE]
           [CASE...]

Runs the cases (default: all) with four ranks on this machine and with two on each of two nodes made
of network namespaces (tests/cluster/run.sh), prints each result as it comes, and at the end a table
in Markdown. CASE: a name, a number of the table, or either with @1 or @2 for one of the two places.
--list prints the cases with the time that each takes on a quiet machine. --quick: a few short
cases, once each. --runs: repeats every case so often. --patience: limits in seconds grow by this factor,
for machines that do something else as well. --seed: of the random moments, ranks and bits; without
it each call has another one, which is printed. --table: puts the rows into this file as they come.
Other rows and cells of its table stay, with what they say about their run, so that a table can be
made in several runs, and be part of a text (docs/reliability.md). The exit code is 1 if a case
failed. TASUKI_CHAOS_MINUTES: how long the case chaos takes (default 10).

Each run is bounded. No process, mount or file is left, also after Ctrl-C, SIGTERM or SIGHUP; where
cases failed, what all jobs printed stays.
"""
import argparse
import os
import pathlib
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases  # noqa: E402,F401
from jobs import Failure  # noqa: E402
from places import CLUSTER, ROOT, OneNode, TwoNodes  # noqa: E402
from registry import CASES  # noqa: E402
from table import NoTable, Table, cell_of, position, text_of  # noqa: E402
from training import Settings, clean_up  # noqa: E402

PLACES = {1: OneNode(), 2: TwoNodes()}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_case(case, place, runs, seed, progress):
    """(cell of the table, whether all runs did what was expected)"""
    figures, reasons = [], []
    for number in range(runs):
        start = time.monotonic()
        random.seed(f"{seed} {case.name} {place.name} {number}")
        try:
            figures.append(case.run(place, number))
            result = text_of(figures[-1]).removeprefix("at most ")
        except Exception as failure:  # a case that breaks has failed; the others go on
            kind = "" if isinstance(failure, Failure) else f"{type(failure).__name__}: "
            reasons.append(f"{kind}{failure}")
            result = f"FAILED: {reasons[-1]}"
        say(f"{progress} {case.number} {case.name} @ {place.name}, run {number + 1} of {runs}: "
            f"{result} ({time.monotonic() - start:.1f} s)")
    cell = cell_of(figures, runs)
    return (f"**{cell}: {reasons[0]}**" if reasons else cell), not reasons


def settings_of_run(arguments):
    """What the table says about this run."""
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    return (f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, Linux {platform.release()}, "
            f"load {os.getloadavg()[0]:.1f} at the start{f', commit {commit}' if commit else ''}, "
            f"--patience {arguments.patience:g} --seed {arguments.seed}")


def can_have_nodes():
    """Why there can be no nodes here; empty if there can."""
    probe = subprocess.run([CLUSTER, "--slots", "1", "--", "true"], capture_output=True, text=True,
                           timeout=60)
    return probe.stdout.strip().splitlines()[-1] if probe.returncode == 77 else ""


def choose(names, is_quick):
    """(case, numbers of nodes) in the order of the table."""
    ordered = sorted(CASES.values(), key=lambda case: position(case.number))
    if not names:
        return [(case, case.quick if is_quick else case.nodes) for case in ordered
                if case.quick or not is_quick]
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


def runs_of(case, arguments):
    return arguments.runs or (1 if arguments.quick else case.runs)


def print_list(chosen, arguments):
    total = 0
    for case, nodes in chosen:
        runs = runs_of(case, arguments)
        seconds = case.seconds * runs * len(nodes)
        total += seconds
        print(f"{case.number:>4}  {case.name:<24} {runs:>3} x on "
              f"{' and '.join(PLACES[n].name for n in nodes):<22} {seconds:>5.0f} s  {case.fault}")
    print(f"all: about {max(1, round(total / 60))} min on a quiet machine")


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


def end_by_signal(number, _):
    """As by an exception; what cleans up is not interrupted again."""
    handle_signals(signal.SIG_IGN)
    say(f"run.py: ended by {signal.Signals(number).name}; cleaning up")
    sys.exit(128 + number)


def handle_signals(action):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, action)


def run_all(chosen, arguments, table):
    """Whether all cases did what was expected."""
    without_nodes = can_have_nodes() if any(2 in nodes for _, nodes in chosen) else ""
    if without_nodes:
        say(f"two nodes: {without_nodes}")
    for case in CASES.values():  # new ones, and those that changed
        if arguments.table:
            table.update(case, {})
    is_good = True
    for index, (case, nodes) in enumerate(chosen, 1):
        cells = {}
        for number in nodes:
            if number == 2 and without_nodes:
                continue
            cells[number], passed = run_case(case, PLACES[number], runs_of(case, arguments),
                                             arguments.seed, f"[{index}/{len(chosen)}]")
            is_good = is_good and passed
        if cells:
            table.update(case, cells)
            table.write()
    return is_good


def main():
    arguments = read_arguments()
    chosen = choose(arguments.cases, arguments.quick)
    if arguments.list:
        print_list(chosen, arguments)
        return 0
    try:
        table = Table(arguments.table, settings_of_run(arguments))
    except (NoTable, OSError) as error:
        say(f"run.py: --table: {error}")
        return 64
    Settings.build = arguments.build.absolute()
    # The quick ones are tests, which must pass beside other work; the others measure.
    load = os.getloadavg()[0] / os.cpu_count() if arguments.quick else 0
    Settings.patience = arguments.patience * (1 + load)
    Settings.quick = arguments.quick
    handle_signals(end_by_signal)
    Settings.work = pathlib.Path(tempfile.mkdtemp(prefix="tasuki-faults-"))
    say(f"--seed {arguments.seed}, files in {Settings.work}")
    has_failed = False
    try:
        is_good = run_all(chosen, arguments, table)
        has_failed = not is_good
    finally:
        handle_signals(signal.SIG_IGN)
        clean_up(keep_output=has_failed)
    if has_failed:
        say(f"what the jobs printed is in {Settings.work}")
    print(table.text() if not arguments.table else f"rows are in {arguments.table}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
