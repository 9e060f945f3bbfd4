#!/usr/bin/env python3
"""The articles' tables beside ours of the same work, in docs/results.md and docs/allreduce.md.

    bench/articles.py [NAME...]

Runs the experiments that a table needs and that are not done yet (build/apps/tasuki-experiment goes on
where it was interrupted), and writes the table between the marks of its name in its page.
--tables-only starts no run.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

from article_tables import TABLES, Missing, one
from claims_table import ROOT
from experiment_runs import runs_of

PAGES = {"exchange": ROOT / "docs/allreduce.md"}  # docs/results.md has the others
EXPERIMENTS = {"mnist": "mnist_scaling"}  # where its name is another
SECTIONED = ["cnn10_devices", "wrn_28_10"]  # their sections begin with the kind of device
# The run of an experiment whose load is drawn.
DRAWN = {"vgg_small": {"np": "4", "batchsize": "64", "loader_threads": "1"}}


def run_experiment(name, results):
    """Failed rows (out of memory) have a place in the tables, too."""
    experiment = EXPERIMENTS.get(name, name)
    file = ROOT / f"experiments/{experiment}.ini"
    command = [ROOT / "build/apps/tasuki-experiment", file, "--folder", results / experiment]
    kind = "gpu" if shutil.which("nvidia-smi") else "cpu"
    sections = re.findall(rf"(?m)^\[({kind}\w*)\]", file.read_text())
    for part in [["--section", each] for each in sections] if name in SECTIONED else [[]]:
        subprocess.run(command + part, cwd=ROOT, check=False)


def make_runs(name, results):
    if name in ["claims", "processors"]:
        return
    if name == "exchange":
        subprocess.run([ROOT / "bench/exchange_times.py", "--out", "bench/results/exchange.md"],
                       cwd=ROOT, check=True)
    else:
        run_experiment(name, results)


def draw_load(name, results):
    """docs/images/NAME_load.svg, what --monitor wrote of one run."""
    run = one(runs_of(results / name), **DRAWN[name])
    subprocess.run([ROOT / "scripts/plot_monitor", run.folder / "result",
                    ROOT / f"docs/images/{name}_load.svg"], check=True)


def put(name, text, file):
    """Writes a table between its marks."""
    page = file.read_text()
    marks = re.compile(f"(<!-- bench/articles.py {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, count = marks.subn(lambda found: found[1] + "\n" + text + "\n" + found[2], page)
    if count != 1:
        sys.exit(f"articles.py: {file} has {count} places for {name}, expected one")
    file.write_text(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"of {', '.join(TABLES)} (default: all)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results",
                        help="folder of the experiments' folders (default: results)")
    parser.add_argument("--page", type=pathlib.Path,
                        help="file with the marks (default: the one in docs/ that has them)")
    parser.add_argument("--tables-only", action="store_true", help="from finished runs alone")
    options = parser.parse_args()
    results = options.results.resolve()
    for name in options.names:
        if name not in TABLES:
            parser.error(f"expected one of {', '.join(TABLES)}, found '{name}'")
    for name in options.names or TABLES:
        if not options.tables_only:
            make_runs(name, results)
        try:
            put(name, TABLES[name](results),
                options.page or PAGES.get(name, ROOT / "docs/results.md"))
            if name in DRAWN and not options.page:
                draw_load(name, results)
        except Missing as missing:
            sys.exit(f"articles.py: {name}: expected {missing}; bench/articles.py {name} makes it")


if __name__ == "__main__":
    main()
