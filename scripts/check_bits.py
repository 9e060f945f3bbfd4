#!/usr/bin/env python3
"""Shows that runs with --reproducible have the same bits wherever they run on this machine.

  scripts/check_bits.py
  scripts/check_bits.py --runs 'lm|dcgan'

Small models learn from made-up data for 40 steps, with evaluations: on 1 to 8 ranks, on one to three
nodes, with all communicators that exchange gradients, one to three threads, and all ways to exchange
gradients and to keep weights and states. The runs are chosen so that every pair of these settings
occurs (pairwise covering). The data divide neither into batches nor into shards, and in the last
step of an epoch most shards are empty. Two models have 8 shards of 50 examples, for code that shards
of one or two never reach. Weights, optimizer states and logs (without times) of a model
must be the same in all its runs; the exit code is 1 where they are not. Some runs are killed and
resumed on other numbers of ranks. Nodes are network namespaces; runs on them are skipped where there
are none.
"""
import argparse
import contextlib
import dataclasses
import hashlib
import itertools
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from small_runs import (Failure, Skipped, end, execute, reason_in, results, write_data,
                        write_digits)

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, FEW_STEPS = 40, 12
# 96 examples or so: three batches of 29 and a short one, in 24 shards.
FLAGS = "--reproducible --epoch 99 --log-every 3".split()
SMALL, LARGE = "--global-batch 29", "--shards 8 --global-batch 397"
MODELS = {
    "mnist": "train_mnist --data {data}/mnist --unit 100 --clip-norm 1",
    "mnist-50": "train_mnist --data {data}/digits --unit 300",
    "lenet-50": "train_lenet --data {data}/digits",
    "lenet": "train_lenet --data {data}/mnist --accumulate 2 --optimizer momentum_sgd --lr 0.01 --lars",
    "cnn10": "train_cifar --data {data}/cifar --arch cnn10 --augment --examples 53 "
             "--test-examples 10",
    "cnn10-bf16": "train_cifar --data {data}/cifar --arch cnn10 --examples 53 --test-examples 10 "
                  "--dtype bf16",
    "lm": "train_lm --data {data}/text --layers 1 --heads 2 --width 128 --context 16 "
          "--optimizer lamb --ema 0.9",
    "lm-bf16": "train_lm --data {data}/text --layers 1 --heads 2 --width 32 --context 16 "
               "--dtype bf16",
    "seq2seq": "train_seq2seq --source {data}/source --target {data}/target --unit 32 --layer 2 "
               "--on-nan skip",
    "seq2seq-bf16": "train_seq2seq --source {data}/source --target {data}/target --unit 32 "
                    "--layer 2 --dtype bf16",
    "dcgan": "train_dcgan --dataset mnist --data {data}/mnist --channels 8 --samples 0",
}
# Of 8 shards: other models have 24.
ON_8 = ("mnist-50", "lenet-50")
# Ranks on each node.
PLACES = {"1": [1], "2": [2], "3": [3], "4": [4], "6": [6], "8": [8], "1+1": [1, 1], "2+2": [2, 2],
          "3+1": [3, 1], "3+3": [3, 3], "4+4": [4, 4], "1+1+1": [1, 1, 1], "2+2+2": [2, 2, 2],
          "4+1+3": [4, 1, 3], "12": [12], "24": [24]}
KINDS = ("naive", "flat", "single_node", "hierarchical", "two_dimensional")
EXCHANGES = ("whole", "overlapped", "slices", "thread")
# Where the weights and the optimizer's states are.
KEPT = {"shared": "", "private": "--node-weights private", "divided": "--shard gradients"}


FLAGS_OF_ALL = []  # --isa
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclasses.dataclass(frozen=True)
class Run:
    model: str
    place: str
    kind: str
    threads: str
    exchange: str
    kept: str
    steps: int = STEPS

    def settings(self):
        return dataclasses.astuple(self)[:-1]

    def is_possible(self):
        ranks = PLACES[self.place]
        # Many ranks on few cores take long: two runs have them, which covering()
        # adds.
        if sum(ranks) > 8 or self.model in ON_8 and 8 % sum(ranks) != 0:
            return False
        return not (self.kind == "single_node" and len(ranks) > 1 or
                    self.kind == "two_dimensional" and len(set(ranks)) > 1)

    def __str__(self):
        late = ", late" if self.exchange == "double-buffered" else ""
        return (f"{self.model}{late}: {self.place} ranks, {self.kind}, {self.threads} thread(s), "
                f"{self.exchange}, {self.kept}")

    # Runs of one name must be equal. Gradients that are used a step later make other weights.
    def group(self):
        return self.model + (", late" if self.exchange == "double-buffered" else "")


def covering(models):
    """Few runs with every possible pair of settings, found greedily, always the same."""
    every = [run for run in itertools.starmap(Run, itertools.product(
        models, PLACES, KINDS, ("1", "2", "3"), EXCHANGES, KEPT)) if run.is_possible()]
    def pairs(run):
        return set(itertools.combinations(enumerate(run.settings()), 2))
    missing = set().union(*map(pairs, every))
    runs = []
    while missing:
        best = max(every, key=lambda run: len(pairs(run) & missing))
        runs.append(best)
        missing -= pairs(best)
    for model in models:
        runs += [Run(model, place, kind, threads, "double-buffered", kept)
                 for place, kind, threads, kept in (("1", "naive", "1", "private"),
                                                    ("4", "single_node", "2", "shared"),
                                                    ("2+2", "hierarchical", "3", "shared"))]
    runs += [Run("mnist", place, "flat", "1", "whole", "shared") for place in ("12", "24")
             if "mnist" in models]
    return sorted(runs, key=lambda run: (models.index(run.model), run.exchange == "double-buffered"))


# A few runs of each model, for every day. The one that is killed has all steps.
def few(models):
    def places_of(model):
        return (("1", "naive", "whole"), ("4" if model in ON_8 else "3", "single_node", "whole"),
                ("2+2", "hierarchical", "overlapped"))
    more = (("2", "flat", "whole"), ("4", "two_dimensional", "thread"))
    return [Run(model, place, kind, str(1 + i % 3), exchange, list(KEPT)[i % len(KEPT)],
                STEPS if model == "mnist" else FEW_STEPS)
            for model in models
            for i, (place, kind, exchange) in enumerate(places_of(model) + more * (model == "mnist"))]


def words_of(run, data, out, *flags):
    program, *own = MODELS[run.model].format(data=data).split()
    own += (LARGE if run.model in ON_8 else SMALL).split()
    exchange = [] if PLACES[run.place] == [1] and run.exchange != "double-buffered" else [
        "--exchange", run.exchange]
    if exchange and run.exchange not in ("whole", "double-buffered"):
        exchange += ["--bucket-mb", "0.05"]  # otherwise these models are one range
    if run.exchange == "double-buffered":
        own += ["--on-nan", "abort"]  # in place of skip, which excludes it
    words = [ROOT / "build/apps" / program, *FLAGS, *own, "--communicator", run.kind, "--threads",
             run.threads, *FLAGS_OF_ALL, *exchange, *KEPT[run.kept].split(), "--max-iterations",
             str(run.steps), "--out", out, *flags]
    ranks = PLACES[run.place]
    if len(ranks) > 1:
        return [ROOT / "tests/cluster/run.sh", "--slots", ",".join(map(str, ranks)), "--", *words]
    if ranks == [1]:
        return words
    return ["mpirun", "-np", str(ranks[0]), "--oversubscribe", "--bind-to", "none", *words]


def trained(run, work, number, limit):
    out = work / f"run-{number}"
    printed = out.with_suffix(".txt")
    code = execute(words_of(run, work / "data", out), printed, limit, env=ENVIRONMENT)
    if code != 0:
        raise (Skipped if code == 77 else Failure)(reason_in(printed))
    return results(out, run.steps)


SAVING = ("--checkpoint-every", "4it")


def killed_and_resumed(model, exchange, work, limit):
    """As an undisturbed run: killed on 4 ranks, on 2, stopped on 3 and ended on 1."""
    out = work / f"killed-{model}-{exchange}"
    printed = out.with_suffix(".txt")
    flags = (*SAVING, "--resume", "auto")
    def run(ranks, *more):
        return words_of(Run(model, str(ranks), "auto" if ranks > 1 else "naive",
                            "2" if ranks % 2 == 0 else "1", exchange, "shared"),
                        work / "data", out, *flags, *more)
    for ranks, past in ((4, 8), (2, 16)):
        with open(printed, "ab") as file:
            job = subprocess.Popen(run(ranks), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                   start_new_session=True, env=ENVIRONMENT)
        try:
            begin = time.monotonic()
            while iteration_saved(out) < past:
                if job.poll() is not None or time.monotonic() - begin > limit:
                    raise Failure(f"no checkpoint {past}: {reason_in(printed)}")
                time.sleep(0.01)
        finally:
            end(job, signal.SIGKILL)
    # Where an undisturbed run saves as well: late gradients are used before a save.
    for ranks, more in ((3, ("--max-iterations", "28")), (1, ())):
        if execute(run(ranks, *more), printed, limit, env=ENVIRONMENT) != 0:
            raise Failure(reason_in(printed))
    return results(out, STEPS)


def saved(model, exchange, work, limit):
    """An undisturbed run that saves: gradients that are used a step later are used before a save."""
    out = work / f"saved-{model}-{exchange}"
    printed = out.with_suffix(".txt")
    words = words_of(Run(model, "2", "naive", "1", exchange, "shared"), work / "data", out, *SAVING)
    if execute(words, printed, limit, env=ENVIRONMENT) != 0:
        raise Failure(reason_in(printed))
    return results(out, STEPS)


def iteration_saved(out):
    found = [int(path.name.removeprefix("iter_")) for path in (out / "checkpoints").glob("iter_*")
             if path.name.removeprefix("iter_").isdigit()]
    return max(found, default=0)


def refused(work, limit):
    """5 ranks do not divide 24 shards."""
    printed = work / "refused.txt"
    run = Run("mnist", "1", "naive", "1", "whole", "shared")
    words = words_of(run, work / "data", work / "refused")
    code = execute(["mpirun", "-np", "5", "--oversubscribe", "--bind-to", "none", *words], printed,
                   limit, env=ENVIRONMENT)
    text = printed.read_text(errors="replace")
    if code == 0 or "24" not in text or "5 ranks" not in text:
        raise Failure(f"5 ranks and 24 shards: exit code {code}, {reason_in(printed)}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, usage="check_bits.py [flags]",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="", metavar="REGEX",
                        help="only models whose names match: " + ", ".join(MODELS))
    parser.add_argument("--few", action="store_true", help="a few runs of each model")
    parser.add_argument("--isa", default="native", metavar="SET",
                        help="the programs' --isa; on processors that share a set, the digests at "
                             "the end may be compared")
    parser.add_argument("--timeout", type=float, default=180, metavar="SECONDS",
                        help="ends a run that takes longer (default: 180)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER",
                        help="keep data, results and what the runs print here")
    parser.error = lambda message: parser.exit(64, f"check_bits.py: {message}; --help says more\n")
    arguments = parser.parse_args()
    try:
        arguments.models = [model for model in MODELS if re.search(arguments.runs, model)]
    except re.error as error:
        parser.error(f"--runs: {error}")
    if not arguments.models:
        parser.error(f"--runs: expected one of {', '.join(MODELS)}")
    if arguments.keep and arguments.keep.exists() and any(arguments.keep.iterdir()):
        parser.error(f"--keep: {arguments.keep} is not empty")
    for model in arguments.models:
        program = ROOT / "build/apps" / MODELS[model].split()[0]
        if not program.exists():
            parser.error(f"there is no {program}; build it first")
    return arguments


def main():
    arguments = parse()
    FLAGS_OF_ALL.extend(["--isa", arguments.isa])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    first, numbers, counts, notes = {}, {}, {}, []
    def judge(title, group, find):
        try:
            found = find()
            expected = first.setdefault(group, found)
            numbers[group] = numbers.get(group, 0) + 1
            word = "equal" if found == expected else "different"
            names = [name for name in sorted(found.keys() | expected.keys())
                     if found.get(name) != expected.get(name)]
            if names:
                notes.append(f"{title}: {names[0]}, and {len(names) - 1} more")
        except Failure as failure:
            word = failure.word
            notes.append(f"{title}: {failure}")
        counts[word] = counts.get(word, 0) + 1
        print(f"{title:84}{word}", flush=True)
    with contextlib.ExitStack() as stack:
        work = arguments.keep or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="check_bits."))
        work = pathlib.Path(work).resolve()
        write_data(work / "data")
        (work / "data/digits").mkdir()
        write_digits(work / "data/digits", 400, random.Random(8))
        runs = (few if arguments.few else covering)(arguments.models)
        for number, run in enumerate(runs):
            judge(str(run), run.group(), lambda: trained(run, work, number, arguments.timeout))
        for model in arguments.models:
            # 3 ranks do not divide 8 shards.
            if model == "mnist" or not arguments.few and model not in ON_8:
                judge(f"{model}: killed on 4 ranks and on 2, stopped on 3, ended on 1", model,
                      lambda: killed_and_resumed(model, "whole", work, arguments.timeout))
        if "mnist" in arguments.models and not arguments.few:
            late = "double-buffered"
            judge("mnist, late: saved", "mnist, late, saved",
                  lambda: saved("mnist", late, work, arguments.timeout))
            judge("mnist, late: killed on 4 ranks and on 2, stopped on 3, ended on 1",
                  "mnist, late, saved",
                  lambda: killed_and_resumed("mnist", late, work, arguments.timeout))
        if "mnist" in arguments.models:
            judge("mnist: 5 ranks are refused", "refused",
                  lambda: refused(work, arguments.timeout) or {})
    for group, found in first.items():
        if found:
            # All but the text that says what was computed with.
            values = sorted(item for item in found.items() if "computed_on" not in item[0])
            digest = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
            print(f"{group}, --isa {arguments.isa}: {digest}")
    print("\n| model | runs that have one set of bits |\n|---|---|")
    for group, number in numbers.items():
        if group != "refused":
            print(f"| {group} | {number} |")
    print(*notes, ", ".join(f"{count} {word}" for word, count in counts.items()), sep="\n")
    # A model of which one run alone was possible shows nothing.
    alone = [group for group, number in numbers.items() if number < 2 and group != "refused"]
    if alone:
        print("check_bits.py: only one run of", ", ".join(alone))
    sys.exit("different" in counts or "failed" in counts or bool(alone))


if __name__ == "__main__":
    main()
