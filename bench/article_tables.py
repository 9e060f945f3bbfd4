"""The articles' tables, and ours of the same work below them: a function for each, by name.

Each takes the folder of the experiments' folders and returns Markdown. Figures of the articles have
the digits that the articles give them. Times are seconds.
"""
import os
import re
import statistics

from claims_table import ROOT, claims as all_claims, speed
from experiment_runs import runs_of
import tables as markdown  # claims_table knows its folder


class Missing(Exception):
    """What a table needs."""


def runs_in(folder):
    """All that have ended; there are some that are done."""
    runs = runs_of(folder)
    if not any(run.is_done for run in runs):
        raise Missing(f"runs in {folder}")
    return runs


def done_in(folder):
    return [run for run in runs_in(folder) if run.is_done]


def chosen(runs, **settings):
    """Runs with these settings, by number of processes."""
    found = [run for run in runs if all(run.settings.get(name.replace("_", "-")) == value
                                        for name, value in settings.items())]
    return sorted(found, key=lambda run: run.np)


def one(runs, **settings):
    found = chosen(runs, **settings)
    if not found or not found[0].is_done:
        raise Missing(f"a run with {', '.join(f'{k} = {v}' for k, v in settings.items())}")
    return found[0]


def table(header, rows):
    lines = [header, ["-"] * len(header), *rows]
    return "".join("| " + " | ".join("" if cell is None else str(cell) for cell in line) + " |\n"
                   for line in lines).replace("| - |", "|-|").replace(" - |", "-|")


def fixed(value, digits):
    return None if value is None else f"{value:.{digits}f}"


def percent(value):
    return f"{100 * value:.0f} %"


def devices_of(run):
    """2 processes, or 2 GPUs."""
    kind = ["GPU", "GPUs"] if run.origin.get("gpu") else ["process", "processes"]
    return f"{run.processes} {kind[0] if run.np == 1 else kind[1]}"


def duration(seconds):
    """As an article writes it, 3:10:21."""
    seconds = round(seconds)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def made(experiment, runs):
    """With what a table was made, when, where, and how long that took."""
    done = [run for run in runs if run.is_done]
    origins = {(run.commit, run.machine) for run in done}
    if len(origins) > 1:
        raise Missing("rows of one version on one machine (build/apps/tasuki-experiment --rerun all), "
                      f"found {', '.join(' on '.join(each) for each in sorted(origins))}")
    commit, machine = origins.pop()
    minutes = max(1, round(sum(run.wall_seconds for run in runs) / 60))
    return (f"\n`build/apps/tasuki-experiment experiments/{experiment}.ini` at {commit}, "
            f"{max(run.ended for run in done)}, {machine}; {minutes} "
            f"minute{'' if minutes == 1 else 's'}.\n")


def mnist(results):
    """ChainerMN's train_mnist.py, batch 100 a process, 20 epochs."""
    cpu = {(1, 1): "2670.08", (2, 1): "2117.98", (4, 1): "687.73", (6, 1): "614.60",
           (10, 1): "583.00", (2, 2): "2504.24", (4, 2): "567.44", (6, 2): "554.23",
           (10, 2): "512.01"}
    gpu = {(1, 1): "80.64", (2, 1): "45.10", (2, 2): "418.23", (4, 2): "252.48"}

    def row(who, count, number, nodes, link, device, seconds, base, accuracy=None):
        speedup = float(base) / float(seconds)
        return [who, count, nodes, link, device, seconds, fixed(speedup, 2),
                percent(speedup / number), accuracy]

    rows = [row("article", n, n, nodes, None, device, seconds, times[1, 1])
            for device, times in [("CPU", cpu), ("GPU", gpu)]
            for (n, nodes), seconds in times.items()]
    sections = {"one_node": None, "two_nodes": "no limit", "two_nodes_1gbit": "1 Gbit/s",
                "two_nodes_100mbit": "100 Mbit/s"}
    everything, base = [], None
    for section, link in sections.items():
        runs = runs_in(results / "mnist_scaling" / section)
        everything += runs
        for run in chosen(runs):
            nodes, epochs = run.settings["nodes"], int(run.settings["epoch"])
            if not run.is_done:
                rows.append(["ours", run.np, nodes, link, "core", run.mark()] + [None] * 3)
                continue
            whole = epochs == 20
            seconds = fixed(run.seconds * 20 / epochs, 2)
            base = base or seconds
            rows.append(row("ours" if whole else f"ours, {epochs} epoch x {20 // epochs}",
                            run.processes, run.np, nodes, link, "core", seconds, base,
                            fixed(run.last_five(), 4) if whole else None))
    header = ["", "processes", "nodes", "link", "device", "time [s]", "speed-up", "efficiency",
              "accuracy"]
    return table(header, rows) + made("mnist_scaling", everything)


def communicators(results):
    """The perceptron for three epochs with each communicator; medians of three runs."""
    runs = done_in(results / "communicators")
    rows = []
    for nodes in ["1", "2"]:
        base = None
        for name in ["naive", "flat", "hierarchical", "two_dimensional", "dummy"]:
            one(runs, nodes=nodes, communicator=name)
            own = chosen(runs, nodes=nodes, communicator=name)
            seconds = statistics.median(run.seconds for run in own)
            base = base or seconds
            accuracy = statistics.median(run.accuracies()[-1] for run in own)
            rows.append([nodes, f"`{name}`", fixed(seconds, 2), fixed(base / seconds, 2),
                         fixed(accuracy, 4)])
    header = ["nodes", "communicator", "time [s]", "speed-up", "accuracy"]
    return table(header, rows) + made("communicators", runs)


def unequal_devices(results):
    """Chainer's ParallelUpdater on two GPUs of unequal speed, 20 epochs."""
    article = [("CPU", "698.653", "0.9837", "34.5"), ("GTX 1050 Ti", "85.710", "0.9794", "3.86"),
               ("Quadro K2000", "110.866", "0.9825", "5.23"),
               ("both GPUs", "73.795", "0.9821", "3.54")]
    rows = [["article", device, seconds, fixed(85.710 / float(seconds), 2), epoch, accuracy]
            for device, seconds, accuracy, epoch in article]
    alone = done_in(results / "unequal_devices/alone")
    both = done_in(results / "unequal_devices/both")
    ours = [("a core", one(alone, work="1")), ("a core at half speed", one(alone, work="2")),
            ("both, `--split even`", one(both, split="even")),
            ("both, `--split auto`", one(both, split="auto"))]
    rows += [["ours", device, fixed(run.seconds, 1), fixed(ours[0][1].seconds / run.seconds, 2),
              fixed(run.result["epoch_seconds"], 2), fixed(run.last_five(), 4)]
             for device, run in ours]
    header = ["", "device", "time [s]", "speed-up", "median epoch [s]", "accuracy"]
    return table(header, rows) + made("unequal_devices", [run for _, run in ours])


def data_parallel(results):
    """One process with one and with two equal devices."""
    runs = done_in(results / "data_parallel")
    single, double = one(runs, devices="cpu:1"), one(runs, devices="cpu:2")
    rows = [[name, fixed(run.seconds, 1), fixed(single.seconds / run.seconds, 2),
             fixed(run.result["epoch_seconds"], 2), fixed(run.last_five(), 4)]
            for name, run in [("one core", single), ("two cores", double)]]
    header = ["devices", "time [s]", "speed-up", "median epoch [s]", "accuracy"]
    return table(header, rows) + made("data_parallel", runs)


def vgg_small(results):
    """TensorFlow's VGG on CIFAR-10 with distorted images, one and four GPUs."""
    article = [("1 GPU", [768.2, 745.9, 730.8, 764.6, 779.0], "0.167, 0.172, 0.175, 0.167, 0.164"),
               ("4 GPUs", [2682.6, 2475.5, 2452.7, 2500.2, 2853.9],
                "0.048, 0.052, 0.052, 0.051, 0.045")]
    base = statistics.median(article[0][1])
    rows = [["article", device, 64, 6, ", ".join(map(str, speeds)),
             fixed(statistics.median(speeds), 1), seconds,
             fixed(statistics.median(speeds) / base, 2)] for device, speeds, seconds in article]
    folder = results / "vgg_small"
    runs = done_in(folder)
    runs.sort(key=lambda run: (run.np, int(run.settings["batchsize"]),
                               int(run.settings["loader-threads"])))
    first = runs[0].examples_per_second
    rows += [["ours", devices_of(run), run.settings["batchsize"], run.settings["loader-threads"],
              ", ".join(fixed(speed, 1) for speed in run.speeds()),
              fixed(run.examples_per_second, 1), fixed(run.result["step_seconds"], 3),
              fixed(run.examples_per_second / first, 2)] for run in runs]
    header = ["", "devices", "batch each", "loader threads", "examples / s, every ten steps",
              "median", "s / batch", "speed-up"]
    return table(header, rows) + loads(folder / "table.md") + made("vgg_small", runs)


def loads(file):
    """How busy each device was: the article's GPUs, and the processes of our runs."""
    rows = [["article, input made by the first", "1 GPU of 4", 64, 6, "29, 0, 0, 0", None, None],
            ["article, input made by the first", "4 GPUs", 64, 6,
             "the first clearly higher, the others low", None, None],
            ["article, input made by each", "4 GPUs", 64, 6, "37, 26, 27, 34", None, None],
            ["article, input made by each", "4 GPUs", 128, 6, "38, 34, 31, 34 (74 to 78 W of 250)",
             None, None]]
    if not file.exists():
        raise Missing(str(file))
    ranks = markdown.table(file, "vgg_small", ["load [%]"])
    ours = sorted(markdown.table(file, "vgg_small", ["processes"]), key=lambda run: (
        int(run["processes"].rstrip("*")), int(run["batchsize"]), int(run["loader-threads"])))
    for run in ours:
        own = [rank for rank in ranks if rank["row"] == run[""]]
        rows.append(["ours", run["processes"], run["batchsize"], run["loader-threads"]]
                    + [", ".join(rank[column] for rank in own)
                       for column in ["load [%]", "memory [MB]", "input wait [ms]"]])
    header = ["", "devices", "batch each", "loader threads", "load of each [%]",
              "memory of each [MB]", "wait for input in a step, each [ms]"]
    return "\nHow busy each device is (of ours, 100 % is one core):\n\n" + table(header, rows)


def lenet(results):
    """Dive into Deep Learning: LeNet on Fashion-MNIST, SGD 0.2, batch 256, 10 epochs."""
    rows = [["article", "1 GPU", "0.82", "3.7", "1.00"],
            ["article", "2 GPUs", "0.82", "3.8", "0.97"]]
    runs = done_in(results / "lenet")
    base = None
    for n in ["1", "2"]:
        own = [one(runs, np=n, seed=seed) for seed in ["0", "1", "2"]]
        seconds = statistics.median(run.result["epoch_seconds"] for run in own)
        base = base or seconds
        accuracy = statistics.median(max(run.accuracies()[8:10]) for run in own)
        rows.append(["ours", devices_of(own[0]), fixed(accuracy, 4), fixed(seconds, 2),
                     fixed(base / seconds, 2)])
    text = table(["", "devices", "accuracy", "s / epoch", "speed-up"], rows)
    rows = [[epoch + 1] + [fixed(statistics.median(run.accuracies()[epoch] for run in
                                                   chosen(runs, np=n)), 4) for n in ["1", "2"]]
            for epoch in range(10)]
    text += "\nAccuracy on test data after each epoch, medians of three seeds:\n\n"
    return text + table(["epoch", "1 process", "2 processes"], rows) + made("lenet", runs)


def lenet_batch(results):
    """Its exercise: batch k x 256 on k devices, accuracy at several learning rates."""
    runs = done_in(results / "lenet_batch")
    rates = sorted({run.settings["lr"] for run in runs}, key=float)
    rows = []
    for n in ["1", "2", "4"]:
        own = {rate: one(runs, np=n, lr=rate) for rate in rates}
        best = {rate: max(run.accuracies()) for rate, run in own.items()}
        top = max(best, key=best.get)
        seconds = statistics.median(run.result["epoch_seconds"] for run in own.values())
        rows.append([own[top].processes, int(n) * 256]
                    + [f"**{best[rate]:.4f}**" if rate == top else f"{best[rate]:.4f}"
                       for rate in rates] + [fixed(seconds, 2)])
    header = ["processes", "batch"] + [f"rate {rate}" for rate in rates] + ["s / epoch"]
    return table(header, rows) + made("lenet_batch", runs)


CNN10 = {  # batch: first epoch, median of the others, whole, accuracy of 1 GPU, 2 GPUs, a TPU
    128: ["18.69 11.68 0:19:34 0.8960", "20.01 14.22 0:23:47 0.9003", "54.31 9.12 0:15:58 0.8933"],
    256: ["12.92 11.10 0:18:32 0.8940", "13.69 11.27 0:18:53 0.8926", "53.87 7.75 0:13:57 0.8829"],
    512: ["13.45 10.64 0:17:44 0.8849", "13.96 10.59 0:17:41 0.8853", "57.74 7.91 0:14:06 0.8839"],
    1024: ["15.33 10.35 0:17:20 0.8597", "15.07 10.33 0:17:17 0.8541", "57.99 7.45 0:13:19 0.8729"],
    2048: ["**out of memory**", "13.65 9.03 0:15:08 0.8457", "57.61 7.02 0:12:31 0.8489"],
}
WIDE = {
    128: ["121.90 114.04 3:10:21 0.8416", "144.09 134.79 3:44:47 0.8257",
          "217.59 29.28 0:52:03 0.7846"],
    256: ["**out of memory**", "138.26 129.92 3:36:33 0.8165", "223.53 25.11 0:45:13 0.8047"],
    512: ["", "", "241.29 23.11 0:42:15 0.8023"],
    1024: ["", "", "220.91 20.99 0:38:29 0.7365"],
    2048: ["", "", "220.55 20.45 0:37:33 0.1758"],
}


def sweep(article, experiment, results):
    rows = []
    for batch, columns in article.items():
        for device, cell in zip(["1 GPU", "2 GPUs", "TPU v2"], columns):
            if cell:
                rows.append(["article", device, batch]
                            + ([cell] if cell.startswith("*") else cell.split()))
    runs = runs_in(results / experiment)
    for run in sorted(runs, key=lambda run: (int(run.settings["global-batch"]), run.np)):
        row = ["ours", devices_of(run), run.settings["global-batch"]]
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
    file = "bench/results/exchange.md"
    single, double = ({row["communicator"]: row for row in
                       markdown.table(file, f"A step of the perceptron, {place}")}
                      for place in ["one node", "two nodes"])
    rows = [[f"`{name}`"] + [single.get(name, {}).get(column)
                             for column in ["exchange [ms]", "step [ms]"]]
            + [double[name][column] if name in double else "needs one machine"
               for column in ["exchange [ms]", "step [ms]", "MB sent in a step"]]
            for name in {**single, **double}]
    header = ["communicator", "one node: exchange [ms]", "one node: step [ms]",
              "two nodes*: exchange [ms]", "two nodes*: step [ms]", "two nodes*: MB sent in a step"]
    page = (ROOT / file).read_text()
    made_with = page.splitlines()[2].split(". ", 1)[0]
    minutes = re.search(r"All of it took (\d+) minute", page)[1]
    return table(header, rows) + f"\n{made_with}; {minutes} minutes.\n"


def claims(_):
    """What is claimed, from the other tables."""
    rows = [[claim.what, f"[{claim.figure}]({os.path.relpath(ROOT / claim.file, ROOT / 'docs')})",
             f"`{claim.origin.command}`", claim.origin.date, claim.origin.machine]
            for claim in all_claims()]
    return table(["claim", "figure", "command", "date", "machine"], rows)


def processors(_):
    """Times relative to PyTorch's on each processor that they were measured on."""
    rows = [[what] + [f"[{each[name].said}](../{each[name].file})" if name in each
                      else "" for name in speed.PROCESSORS.values()]
            for what, each in speed.on_processors().items()]
    return table(["", *speed.PROCESSORS.values()], rows)


TABLES = {each.__name__: each for each in [
    mnist, communicators, unequal_devices, data_parallel, vgg_small, lenet, lenet_batch,
    cnn10_devices, wrn_28_10, exchange, claims,
    processors]}
