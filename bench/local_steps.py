#!/usr/bin/env python3
"""What --sync-every saves over a slow link, and what it does to accuracy.

    bench/local_steps.py --data train_mnist=DIR --data train_cifar=DIR

Two nodes of one rank and one thread, in network namespaces of this machine. Three tables:

- speed: examples a second in steps, over whole periods of H, against one rank alone. Runs take turns
  (A B A B ...).
- bytes: what the first node sends for each step, from two runs of different lengths, so that the
  start, data and the end do not count.
- accuracy: after the last epoch, on links without a limit, for several seeds.

Prints Markdown; --out writes it to a file too.
"""
import csv
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from comparison import HERE, MPI_ENVIRONMENT, heading, parser_for_programs, publish, read_data

SENT = "/sys/class/net/eth0/statistics/tx_bytes"
# Program with its flags, examples of a rank and step, H, and further flags of local steps.
CASES = {
    "perceptron": (["train_mnist"], 100, 64,
                   [["--sync-overlap"], ["--sync-overlap", "--wire-dtype", "bf16"], []]),
    "cnn10": (["train_cifar", "--arch", "cnn10"], 32, 16,
              [[], ["--sync-overlap"], ["--wire-dtype", "bf16"]]),
}


def local_runs(options, case, rate=None):
    _, _, every, variants = CASES[case]
    return {" ".join(flags): Run(options, case, 2, flags, rate)
            for flags in (["--sync-every", str(every), *more] for more in variants)}


class Run:
    def __init__(self, options, case, nodes, flags, rate=None):
        (self.program, *self.own), self.batch, _, _ = CASES[case]
        self.options, self.nodes, self.flags, self.rate = options, nodes, flags, rate

    def start(self, *more):
        """Rows of the steps, and the bytes that the first node has sent."""
        with tempfile.TemporaryDirectory() as out:
            steps = pathlib.Path(out) / "steps.csv"
            data = self.options.data.get(self.program)
            command = [str(self.options.build.resolve() / "apps" / self.program), *self.own,
                       *(["--data", str(data)] if data else []), "--threads", "1", "--batchsize",
                       str(self.batch), "--checkpoint-every", "none", "--quiet", "--log-steps",
                       str(steps), "--out", f"{out}/run", *self.flags, *more]
            counted = (f"before=$(cat {SENT}); {shlex.join(command)}; rc=$?; "
                       f'[ "$OMPI_COMM_WORLD_RANK" != 0 ] || echo "sent $(($(cat {SENT}) - before))"'
                       "; exit $rc")
            words = [*self.launcher(), "bash", "-c", counted]
            done = subprocess.run(words, capture_output=True, text=True,
                                  env={**os.environ, **MPI_ENVIRONMENT})
            if done.returncode != 0:
                sys.exit(f"local_steps.py: {shlex.join(words)} failed:\n{done.stdout}{done.stderr}")
            with open(steps, encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            log = pathlib.Path(f"{out}/run/log").read_text(encoding="utf-8")
            return rows, log, int(done.stdout.rsplit("sent ", 1)[1])

    def launcher(self):
        rate = ["--rate", self.rate] if self.rate else []
        return [str(HERE.parent / "tests/cluster/run.sh"), "--nodes", str(self.nodes), "--slots", "1",
                *rate, "--"]

    def examples_per_second(self, first, last):
        """In the steps from `first` to `last`, of all nodes."""
        rows, _, _ = self.start("--max-iterations", str(last), "--test-examples", "2")
        seconds = float(rows[last - 1]["elapsed_time"]) - float(rows[first - 1]["elapsed_time"])
        return (last - first) * self.batch * self.nodes / seconds


def speed(options):
    text = "| | examples/s | min..max | of alone |\n|-|-|-|-|\n"
    for case in options.cases.split(","):
        every = CASES[case][2]
        runs = {"alone": (Run(options, case, 1, []), every, 4 * every),
                # The first steps try several modes of the exchange.
                "gradients in each step": (Run(options, case, 2, [], options.rate), 28, 40)}
        for name, run in local_runs(options, case, options.rate).items():
            runs[name] = (run, every, 4 * every)
        # What two ranks that share a machine can reach at most.
        runs["never together"] = (Run(options, case, 2, ["--sync-every", "1000000"]), every, 4 * every)
        found = {name: [] for name in runs}
        for turn in range(options.rounds):
            for name, (run, first, last) in runs.items():
                found[name].append(run.examples_per_second(first, last))
                print(f"{case}, turn {turn + 1}: {name} {found[name][-1]:.0f}", file=sys.stderr)
        alone = statistics.median(found["alone"])
        for name, values in found.items():
            text += (f"| {case}, {name} | {statistics.median(values):.0f} | "
                     f"{min(values):.0f}..{max(values):.0f} | "
                     f"{statistics.median(values) / alone:.2f} |\n")
    return f"## Speed, {options.rate}\n\n{text}"


def sent_per_step(run, lengths):
    few, many = (run.start("--max-iterations", str(steps), "--test-examples", "2")[2]
                 for steps in lengths)
    return (many - few) / (lengths[1] - lengths[0])


def bytes_sent(options):
    text = "| | bytes a step | times H, of gradients in each step |\n|-|-|-|\n"
    for case in options.cases.split(","):
        every = CASES[case][2]
        each = sent_per_step(Run(options, case, 2, ["--exchange", "whole"]), (8, 24))
        text += f"| {case}, gradients in each step | {each:.0f} | |\n"
        for name, run in local_runs(options, case).items():
            sent = sent_per_step(run, (every, 4 * every))
            text += f"| {case}, {name} | {sent:.0f} | {sent * every / each:.2f} |\n"
    return f"## Bytes that a node sends\n\n{text}"


def accuracy_of(options, case, flags, seed, more):
    _, log, _ = Run(options, case, 2, flags).start("--seed", str(seed), *more)
    values = [entry["validation/main/accuracy"] for entry in json.loads(log)
              if "validation/main/accuracy" in entry]
    return 100 * values[-1]


def accuracy(options):
    studies = (
        ("perceptron", 3, ["--epoch", "5"],
         [["--sync-every", "16"], ["--sync-every", "64"], ["--sync-every", "64", "--sync-overlap"],
          ["--sync-every", "64", "--outer-optimizer", "nesterov"]]),
        ("cnn10", 5, ["--epoch", str(options.cnn_epochs), "--examples", "10000", "--test-examples",
                      "4000", "--dtype", options.cnn_type],
         [["--sync-every", "16"], ["--sync-every", "16", "--sync-warmup", "312"]]),
    )
    text = "| | flags | accuracy, % | mean | difference |\n|-|-|-|-|-|\n"
    for case, seeds, more, variants in studies:
        if case not in options.cases.split(","):
            continue
        base = None
        for flags in [[], *variants]:
            found = []
            for seed in range(seeds):
                found.append(accuracy_of(options, case, flags, seed, more))
                print(f"{case} {flags} seed {seed}: {found[-1]:.2f}", file=sys.stderr)
            mean = statistics.mean(found)
            base = mean if base is None else base
            text += (f"| {case}, {' '.join(more)} | {' '.join(flags) or 'gradients in each step'} | "
                     f"{', '.join(f'{each:.2f}' for each in found)} | {mean:.2f} | "
                     f"{mean - base:+.2f} |\n")
    return f"## Accuracy after the last epoch\n\n{text}"


PARTS = {"speed": speed, "bytes": bytes_sent, "accuracy": accuracy}


def main():
    parser = parser_for_programs(__doc__)
    parser.add_argument("--rate", default="100mbit", help="of the link in the table of speeds")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--cnn-epochs", type=int, default=5)
    parser.add_argument("--cnn-type", default="bf16", help="of cnn10's trainings for the accuracy")
    options = read_data(parser.parse_args())
    text = heading("Local steps over a slow link", options.build) + f" Turns: {options.rounds}.\n\n"
    text += "\n".join(PARTS[part](options) for part in options.parts.split(","))
    publish(text, options.out)


if __name__ == "__main__":
    main()
