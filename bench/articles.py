#!/usr/bin/env python3
"""The articles' tables beside ours of the same work, in docs/results.md.

    bench/articles.py [NAME...]

Runs the experiments that a table needs and that are not done yet (build/apps/experiment goes on
where it was interrupted), and writes the table between the marks of its name in docs/results.md.
--tables-only starts no run. Figures of the articles are in this file. Times are seconds.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys

import claims as claimed
import tables as markdown
from experiment_runs import runs_of

ROOT = pathlib.Path(__file__).resolve().parents[1]


def table(header, rows):
    lines = [header, ["-"] * len(header), *rows]
    return "".join("| " + " | ".join("" if cell is None else str(cell) for cell in line) + " |\n"
                   for line in lines).replace("| - |", "|-|").replace(" - |", "-|")


def fixed(value, digits):
    return None if value is None else f"{value:.{digits}f}"


def processes(run):
    return f"{run.processes} process{'' if run.np == 1 else 'es'}"


def duration(seconds):
    """As the article writes it, 3:10:21."""
    seconds = round(seconds)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def made(experiment, runs):
    """With what a table was made, when, where, and how long that took."""
    newest = max(runs, key=lambda run: run.ended)
    minutes = sum(run.wall_seconds for run in runs) / 60
    return (f"\n`build/apps/experiment experiments/{experiment}.ini` at {newest.commit}, "
            f"{newest.ended}, {newest.machine}; {max(minutes, 1):.0f} minutes.\n")


def by_np(runs, **settings):
    """Runs with these settings, by number of processes."""
    chosen = [run for run in runs if all(run.settings.get(k) == v for k, v in settings.items())]
    return sorted(chosen, key=lambda run: run.np)


def scaling_row(who, count, nodes, link, device, seconds, base, accuracy=None):
    speedup = base / seconds if base else None
    number = int(str(count).rstrip("*"))
    return [who, count, nodes, link, device, fixed(seconds, 1), fixed(speedup, 2),
            None if speedup is None else f"{speedup / number:.0%}".replace("%", " %"), accuracy]


def mnist(results):
    """ChainerMN's train_mnist.py, batch 100 a process, 20 epochs."""
    cpu = {(1, 1): 2670.08, (2, 1): 2117.98, (4, 1): 687.73, (6, 1): 614.60, (10, 1): 583.00,
           (2, 2): 2504.24, (4, 2): 567.44, (6, 2): 554.23, (10, 2): 512.01}
    gpu = {(1, 1): 80.64, (2, 1): 45.10, (2, 2): 418.23, (4, 2): 252.48}
    rows = [scaling_row("article", n, nodes, None, device, seconds, times[1, 1])
            for device, times in [("CPU", cpu), ("GPU", gpu)]
            for (n, nodes), seconds in times.items()]
    sections = {"one_node": None, "two_nodes": None, "two_nodes_1gbit": "1 Gbit/s",
                "two_nodes_100mbit": "100 Mbit/s"}
    base, all_runs = None, []
    for section, link in sections.items():
        for run in by_np(runs_of(results / "mnist_scaling" / section)):
            all_runs.append(run)
            whole = int(run.settings["epoch"]) == 20
            seconds = run.seconds * 20 / int(run.settings["epoch"])
            base = base or seconds
            rows.append(scaling_row("ours", run.processes, run.settings["nodes"],
                                    link if whole else f"{link}, 20 x 1 epoch", "core", seconds,
                                    base, fixed(run.last_five(), 4) if whole else None))
    header = ["", "processes", "nodes", "link", "device", "time [s]", "speed-up", "efficiency",
              "accuracy"]
    return table(header, rows) + made("mnist_scaling", all_runs)


def communicators(results):
    """The perceptron for three epochs with each communicator; medians of three runs."""
    runs = [run for run in runs_of(results / "communicators") if run.is_done]
    rows = []
    for nodes in ["1", "2"]:
        base = None
        for name in ["naive", "flat", "hierarchical", "two_dimensional", "dummy"]:
            own = by_np(runs, nodes=nodes, communicator=name)
            seconds = statistics.median(run.seconds for run in own)
            base = base or seconds
            accuracy = statistics.median(run.accuracies()[-1] for run in own)
            rows.append([nodes, f"`{name}`", fixed(seconds, 2), fixed(base / seconds, 2),
                         fixed(accuracy, 4)])
    header = ["nodes", "communicator", "time [s]", "speed-up", "accuracy"]
    return table(header, rows) + made("communicators", runs)


def data_parallel(results):
    """One process with one and with two equal devices."""
    runs = {run.settings["devices"]: run for run in runs_of(results / "data_parallel")}
    rows = [[count, fixed(run.seconds, 1), fixed(runs["cpu:1"].seconds / run.seconds, 2),
             fixed(run.result["epoch_seconds"], 2), fixed(run.last_five(), 4)]
            for count, run in [("one core", runs["cpu:1"]), ("two cores", runs["cpu:2"])]]
    header = ["devices", "time [s]", "speed-up", "median epoch [s]", "accuracy"]
    return table(header, rows) + made("data_parallel", list(runs.values()))


def unequal_devices(results):
    """Chainer's ParallelUpdater on two GPUs of unequal speed, 20 epochs."""
    article = [("CPU", 698.653, 0.9837, 34.5), ("GTX 1050 Ti", 85.710, 0.9794, 3.86),
               ("Quadro K2000", 110.866, 0.9825, 5.23), ("both GPUs", 73.795, 0.9821, 3.54)]
    rows = [["article", device, fixed(seconds, 1), fixed(85.710 / seconds, 2), epoch, accuracy]
            for device, seconds, accuracy, epoch in article]
    alone = {run.settings["work"]: run for run in runs_of(results / "unequal_devices/alone")}
    both = {run.settings["split"]: run for run in runs_of(results / "unequal_devices/both")}
    ours = [("a core", alone["1"]), ("a core at half speed", alone["2"]),
            ("both, `--split even`", both["even"]), ("both, `--split auto`", both["auto"])]
    rows += [["ours", device, fixed(run.seconds, 1), fixed(ours[0][1].seconds / run.seconds, 2),
              fixed(run.result["epoch_seconds"], 2), fixed(run.last_five(), 4)]
             for device, run in ours]
    header = ["", "device", "time [s]", "speed-up", "median epoch [s]", "accuracy"]
    return table(header, rows) + made("unequal_devices", [run for _, run in ours])


def vgg_small(results):
    """TensorFlow's VGG on CIFAR-10 with distorted images, one and four GPUs."""
    article = [("1 GPU", 64, [768.2, 745.9, 730.8, 764.6, 779.0]),
               ("4 GPUs", 64, [2682.6, 2475.5, 2452.7, 2500.2, 2853.9])]
    base = statistics.median(article[0][2])
    rows = [["article", device, batch, None, fixed(statistics.median(speeds), 0),
             fixed(statistics.median(speeds) / base, 2)] for device, batch, speeds in article]
    runs = [run for run in runs_of(results / "vgg_small") if run.is_done]
    runs.sort(key=lambda run: (run.np, int(run.settings["batchsize"]),
                               int(run.settings["loader-threads"])))
    for run in runs:
        first = runs[0].examples_per_second
        rows.append(["ours", processes(run), run.settings["batchsize"],
                     run.settings["loader-threads"], fixed(run.examples_per_second, 0),
                     fixed(run.examples_per_second / first, 2)])
    header = ["", "devices", "batch each", "loader threads", "examples / s, median", "speed-up"]
    return table(header, rows) + loads(results / "vgg_small/table.md") + made("vgg_small", runs)


def loads(file):
    """How busy each device was: the article's GPUs, and the processes of our runs."""
    rows = [["article, input made by the first", "1 GPU", 64, None, "29, 0, 0, 0", None, None],
            ["article, input made by each", "4 GPUs", 64, None, "37, 26, 27, 34", None, None],
            ["article, input made by each", "4 GPUs", 128, None, "38, 34, 31, 34", None, None]]
    ranks = markdown.table(file, "vgg_small", ["load [%]"])
    for run in markdown.table(file, "vgg_small", ["processes"]):
        own = [rank for rank in ranks if rank["row"] == run[""]]
        rows.append(["ours", run["processes"], run["batchsize"], run["loader-threads"]]
                    + [", ".join(rank[column] for rank in own)
                       for column in ["load [%]", "memory [MB]", "input wait [ms]"]])
    header = ["", "devices", "batch each", "loader threads", "load of each [%]",
              "memory of each [MB]", "wait for input in a step, each [ms]"]
    return "\nHow busy each device is (100 %: one core):\n\n" + table(header, rows)


def lenet(results):
    """Dive into Deep Learning: LeNet on Fashion-MNIST, SGD 0.2, batch 256, 10 epochs."""
    rows = [["article", "1 GPU", 0.82, "3.7", None], ["article", "2 GPUs", 0.82, "3.8", 0.97]]
    runs = [run for run in runs_of(results / "lenet") if run.is_done]
    base = None
    for n in ["1", "2"]:
        own = by_np(runs, np=n)
        seconds = statistics.median(run.result["epoch_seconds"] for run in own)
        base = base or seconds
        accuracy = statistics.median(max(run.accuracies()[8:10]) for run in own)
        rows.append(["ours", processes(own[0]), fixed(accuracy, 4), fixed(seconds, 2),
                     fixed(base / seconds, 2)])
    text = table(["", "devices", "accuracy", "s / epoch", "speed-up"], rows)
    rows = [[epoch + 1] + [fixed(statistics.median(run.accuracies()[epoch] for run in
                                                   by_np(runs, np=n)), 4) for n in ["1", "2"]]
            for epoch in range(10)]
    text += "\nAccuracy on test data after each epoch, medians of three seeds:\n\n"
    return text + table(["epoch", "1 process", "2 processes"], rows) + made("lenet", runs)


def lenet_batch(results):
    """Its exercise: batch k x 256 on k devices, accuracy at several learning rates."""
    runs = [run for run in runs_of(results / "lenet_batch") if run.is_done]
    rates = sorted({run.settings["lr"] for run in runs}, key=float)
    rows = []
    for n in ["1", "2", "4"]:
        own = {run.settings["lr"]: run for run in by_np(runs, np=n)}
        best = {rate: max(own[rate].accuracies()) for rate in rates}
        top = max(best, key=best.get)
        seconds = statistics.median(run.result["epoch_seconds"] for run in own.values())
        rows.append([own[rates[0]].processes, int(n) * 256]
                    + [f"**{best[rate]:.4f}**" if rate == top else f"{best[rate]:.4f}"
                       for rate in rates] + [fixed(seconds, 2)])
    header = ["processes", "batch"] + [f"rate {rate}" for rate in rates] + ["s / epoch"]
    return table(header, rows) + made("lenet_batch", runs)


CNN10 = {  # batch: (first epoch, median of the others, whole, accuracy) of 1 GPU, 2 GPUs, a TPU
    128: [(18.69, 11.68, "0:19:34", 0.8960), (20.01, 14.22, "0:23:47", 0.9003),
          (54.31, 9.12, "0:15:58", 0.8933)],
    256: [(12.92, 11.10, "0:18:32", 0.8940), (13.69, 11.27, "0:18:53", 0.8926),
          (53.87, 7.75, "0:13:57", 0.8829)],
    512: [(13.45, 10.64, "0:17:44", 0.8849), (13.96, 10.59, "0:17:41", 0.8853),
          (57.74, 7.91, "0:14:06", 0.8839)],
    1024: [(15.33, 10.35, "0:17:20", 0.8597), (15.07, 10.33, "0:17:17", 0.8541),
           (57.99, 7.45, "0:13:19", 0.8729)],
    2048: ["**out of memory**", (13.65, 9.03, "0:15:08", 0.8457),
           (57.61, 7.02, "0:12:31", 0.8489)],
}
WIDE = {
    128: [(121.90, 114.04, "3:10:21", 0.8416), (144.09, 134.79, "3:44:47", 0.8257),
          (217.59, 29.28, "0:52:03", 0.7846)],
    256: ["**out of memory**", (138.26, 129.92, "3:36:33", 0.8165),
          (223.53, 25.11, "0:45:13", 0.8047)],
    512: [None, None, (241.29, 23.11, "0:42:15", 0.8023)],
    1024: [None, None, (220.91, 20.99, "0:38:29", 0.7365)],
    2048: [None, None, (220.55, 20.45, "0:37:33", 0.1758)],
}


def sweep(article, experiment, results):
    runs = runs_of(results / experiment)
    rows = []
    for batch, columns in article.items():
        for device, cell in zip(["1 GPU", "2 GPUs", "TPU v2"], columns):
            if isinstance(cell, str):
                rows.append(["article", device, batch, cell])
            elif cell:
                first, other, whole, accuracy = cell
                rows.append(["article", device, batch, fixed(first, 2), fixed(other, 2), whole,
                             fixed(accuracy, 4)])
    for run in sorted(runs, key=lambda run: (int(run.settings["global-batch"]), run.np)):
        row = ["ours", processes(run), run.settings["global-batch"]]
        rows.append(row + ([fixed(run.result["first_epoch_seconds"], 2),
                            fixed(run.result["epoch_seconds"], 2), duration(run.seconds),
                            fixed(run.accuracies()[-1], 4)] if run.is_done else [run.mark()]))
    header = ["", "devices", "batch", "first epoch [s]", "other epochs, median [s]", "whole",
              "accuracy"]
    rows = [row + [None] * (len(header) - len(row)) for row in rows]
    return table(header, rows) + made(experiment, runs)


def cnn10_devices(results):
    """Keras, cnn10 on CIFAR-10, 100 epochs; one and two RTX 2080 Ti, and a TPU."""
    return sweep(CNN10, "cnn10_devices", results)


def wrn_28_10(results):
    """The same for WRN-28-10."""
    return sweep(WIDE, "wrn_28_10", results)


def exchange(_):
    """A step of the perceptron with each communicator, by bench/exchange_times.py."""
    one, two = ({row["communicator"]: row for row in
                 markdown.table("bench/results/exchange.md", f"A step of the perceptron, {place}")}
                for place in ["one node", "two nodes"])
    rows = [[f"`{name}`"] + [(one.get(name) or {}).get(column)
                             for column in ["exchange [ms]", "step [ms]"]]
            + [(two.get(name) or {}).get(column)
               for column in ["exchange [ms]", "step [ms]", "MB sent in a step"]]
            for name in {**one, **two}]
    header = ["communicator", "one node of 2: exchange [ms]", "step [ms]", "two nodes of 2*: exchange [ms]",
              "step [ms]", "MB sent in a step"]
    return table(header, rows)


def claims(_):
    """What is claimed, from the other tables."""
    rows = [[claim.what, f"[{claim.figure}]({os.path.relpath(ROOT / claim.file, ROOT / 'docs')})",
             f"`{claim.origin.command}`", claim.origin.date, claim.origin.machine]
            for claim in claimed.claims()]
    return table(["claim", "figure", "command", "date", "machine"], rows)


TABLES = {each.__name__: each for each in [mnist, communicators, unequal_devices,
                                           data_parallel, vgg_small, lenet, lenet_batch,
                                           cnn10_devices, wrn_28_10, exchange, claims]}
# The run of an experiment whose load is drawn.
DRAWN = {"vgg_small": {"np": "4", "batchsize": "64", "loader-threads": "1"}}
PAGES = {"exchange": ROOT / "docs/allreduce.md"}  # docs/results.md has the others
EXPERIMENTS = {"mnist": "mnist_scaling"}  # where its name is another


def put(name, text, file):
    """Writes a table between its marks."""
    page = file.read_text()
    marks = re.compile(f"(<!-- bench/articles.py {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, count = marks.subn(lambda found: found[1] + "\n" + text + "\n" + found[2], page)
    if count != 1:
        sys.exit(f"articles.py: {file} has {count} places for {name}, not one")
    file.write_text(page)


def draw_load(name, results):
    """docs/images/NAME_load.svg, what --monitor wrote of one run."""
    run = next(run for run in runs_of(results / name) if run.is_done and
               all(run.settings[flag] == value for flag, value in DRAWN[name].items()))
    subprocess.run([ROOT / "scripts/plot_monitor", run.folder / "result",
                    ROOT / f"docs/images/{name}_load.svg"], check=True)


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
    for name in options.names:
        if name not in TABLES:
            parser.error(f"expected one of {', '.join(TABLES)}, found '{name}'")
    for name in options.names or TABLES:
        if name == "exchange" and not options.tables_only:
            subprocess.run([ROOT / "bench/exchange_times.py", "--out",
                            ROOT / "bench/results/exchange.md"], cwd=ROOT, check=True)
        elif name != "claims" and not options.tables_only:
            experiment = EXPERIMENTS.get(name, name)
            # Failed rows (out of memory) have a place in the tables, too.
            subprocess.run([ROOT / "build/apps/experiment", ROOT / f"experiments/{experiment}.ini",
                            "--folder", options.results / experiment], cwd=ROOT, check=False)
        try:
            put(name, TABLES[name](options.results),
                options.page or PAGES.get(name, ROOT / "docs/results.md"))
            if name in DRAWN and not options.page:
                draw_load(name, options.results)
        except (KeyError, IndexError, statistics.StatisticsError) as error:
            sys.exit(f"articles.py: {name}: a run that the table needs is not done ({error!r}); "
                     f"bench/articles.py {name} does it")


if __name__ == "__main__":
    main()
