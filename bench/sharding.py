#!/usr/bin/env python3
"""What --shard saves and costs: memory of the ranks and time of a step of a GPT.

    bench/sharding.py --ranks 2
    bench/sharding.py --ranks 2 --nodes 2 --rate 10gbit

Runs take turns (A B C A B C ...). Memory is the largest sum over the ranks of what each has for
itself and of its part of what it shares (PSS in /proc/PID/smaps_rollup), looked up twenty times a
second in the middle third of the run. The memory of a run with one layer, mostly libraries and MPI,
is subtracted. Times are
medians of steps by the program's own clock. Nodes are network namespaces of this machine; what the
first one sends in a step is the difference of two runs of different lengths, so that the start and the
end do not count. Prints Markdown; --out writes it to a file too.
"""
import csv
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import HERE, MPI_ENVIRONMENT, heading, parser_for_programs, publish, read_data

WAYS = "none,states,gradients,weights"
SENT = "/sys/class/net/eth0/statistics/tx_bytes"


def shared_out(processes):
    """The sum of the processes' PSS, in bytes; of those that have ended, nothing."""
    total = 0
    for process in processes:
        try:
            for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
        except OSError:
            pass
    return total


def ranks_with(text):
    """The processes whose command has `text`, except launchers."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/train_lm") and text.encode() in words:
            found.append(process.name)
    return found


def launcher(options):
    if options.nodes == 1:
        return ["mpirun", "--oversubscribe", "-np", str(options.ranks)]
    rate = ["--rate", options.rate] if options.rate else []
    slots = ",".join([str(options.ranks // options.nodes)] * options.nodes)
    return [HERE.parent / "tests/cluster/run.sh", "--slots", slots, *rate, "--"]


def run(options, way, layers, steps):
    """The largest PSS in bytes, seconds of the later half of the steps, and bytes sent in all."""
    with tempfile.TemporaryDirectory() as out:
        rows = pathlib.Path(out) / "steps.csv"
        text = ["--data", options.data["train_lm"]] if options.data else []
        command = [*launcher(options), options.build.resolve() / "apps/train_lm", *text, "--layers",
                   str(layers), "--width", str(options.width), "--heads", "8", "--context",
                   str(options.context), "--bytes", "100000", "--batchsize", str(options.batch),
                   "--threads", "1", "--node-weights", options.node_weights, "--probe", "off",
                   "--checkpoint-every", "none", "--quiet",
                   "--test-examples", "1", "--log-steps", rows, "--max-iterations", str(steps),
                   "--shard", way, "--out", f"{out}/run"]
        before = len(launcher(options))
        words = [str(word) for word in command]
        if options.nodes > 1:
            counted = (f"before=$(cat {SENT}); {shlex.join(words[before:])}; rc=$?; "
                       f'[ "$OMPI_COMM_WORLD_RANK" != 0 ] || echo "sent $(($(cat {SENT}) - before))"'
                       "; exit $rc")
            words = [*words[:before], "bash", "-c", counted]
        job = subprocess.Popen(words, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **MPI_ENVIRONMENT})
        found = []
        while job.poll() is None:
            found.append(shared_out(ranks_with(f"{out}/run")))
            time.sleep(0.05)
        printed = job.stdout.read()
        if job.returncode != 0:
            sys.exit(f"sharding.py: {job.args} failed:\n{printed}")
        sent = int(printed.rsplit("sent ", 1)[1].split()[0]) if options.nodes > 1 else 0
        with open(rows, encoding="utf-8") as file:
            ends = [float(row["elapsed_time"]) for row in csv.DictReader(file)]
    each = [after - before for before, after in zip(ends, ends[1:])]
    # Without the start, and the end, when rank 0 puts states together for the last snapshot.
    return (max(found[len(found) // 3:2 * len(found) // 3]),
            statistics.median(each[len(each) // 2:]), sent)


def main():
    parser = parser_for_programs(__doc__)
    for name, default in (("ranks", 2), ("nodes", 1), ("layers", 12), ("width", 512),
                          ("context", 64), ("batch", 1), ("steps", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ways", default=WAYS, help="separated by commas; none is the first")
    parser.add_argument("--rate", help="of the links between nodes, such as 10gbit")
    parser.add_argument("--node-weights", default="private", choices=("shared", "private"))
    options = read_data(parser.parse_args())
    ways = options.ways.split(",")
    weights = 4 * 12 * options.layers * options.width ** 2
    base = run(options, "none", 1, 200)[0]
    # A run of fewer steps, for the bytes of one.
    fewer = {way: run(options, way, options.layers, options.steps // 2)[2] for way in ways
             if options.nodes > 1}
    found = {way: [] for way in ways}
    for turn in range(options.rounds):
        for way in ways:
            found[way].append(run(options, way, options.layers, options.steps))
            print(f"turn {turn + 1}: {way} {found[way][-1]}", file=sys.stderr)
    text = heading("What `--shard` saves and costs", options.build)
    text += (f" {options.ranks} ranks of one thread on {options.nodes} node(s)"
             f"{', links of ' + options.rate if options.rate else ''}; {options.layers} layers of width "
             f"{options.width}, {weights / 1e6:.0f} MB of weights; batches of {options.batch} x "
             f"{options.context} bytes; weights {options.node_weights}. "
             f"Memory of all ranks together, less {base / 1e6:.0f} MB of a run with one layer.\n\n"
             "| `--shard` | MB | of none | ms a step | min..max | of none | MB sent a step | of none |\n"
             "|-|-|-|-|-|-|-|-|\n")
    memory = {way: statistics.median(each[0] for each in found[way]) - base for way in ways}
    seconds = {way: [each[1] for each in found[way]] for way in ways}
    sent = {way: (statistics.median(each[2] for each in found[way]) - fewer[way])
            / (options.steps - options.steps // 2) for way in fewer}
    for way in ways:
        middle = statistics.median(seconds[way])
        text += (f"| {way} | {memory[way] / 1e6:.0f} | {memory[way] / memory['none']:.2f} | "
                 f"{1e3 * middle:.0f} | {1e3 * min(seconds[way]):.0f}..{1e3 * max(seconds[way]):.0f} | "
                 f"{middle / statistics.median(seconds['none']):.2f} | "
                 + (f"{sent[way] / 1e6:.1f} | {sent[way] / sent['none']:.2f} |\n" if sent else "| |\n"))
    publish(text, options.out)


if __name__ == "__main__":
    main()
