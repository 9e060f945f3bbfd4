#!/usr/bin/env python3
"""Shows whether two versions of Tasuki compute the same bits on this machine.

  scripts/compare_bits.py main HEAD
  scripts/compare_bits.py --runs 'lm|2x2' v0.1.0 ~/tasuki

A version is a commit, which is checked out and built in a temporary folder, or a folder that is
built already. Both train the same small models for 8 steps on made-up data. Weights, optimizer
states and logs (without times) must be equal; the exit code is 1 where they are not. Some runs are
also stopped in the middle and resumed, by the new version from its own checkpoint and from the old
version's. Runs on two nodes need network namespaces, and are skipped where there are none.
"""
import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from small_runs import SAVED, Failure, Skipped, execute, reason_in, results, write_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, STOP = 8, 4  # of a run; where it is stopped, in the middle of an epoch
FLAGS = ("--threads 1 --conv direct --probe off --epoch 9 --log-every 1 "
         f"--checkpoint-every {STOP}it").split()


@dataclasses.dataclass
class Run:
    name: str
    program: str
    ranks: str  # 2x2: two on each of two nodes
    flags: str
    is_resumed: bool = False


MNIST = "--data {data}/mnist --unit 64 --global-batch 16"
TWO_NODES = f"{MNIST} --bucket-mb 0.05 --communicator"
CIFAR = "--data {data}/cifar --arch resnet20"
RUNS = [
    Run("mnist-1", "train_mnist", "1", MNIST),
    Run("mnist-2", "train_mnist", "2",
        f"{MNIST} --node-weights private --clip-norm 1 --weight-decay 0.01"),
    Run("mnist-2x2-whole", "train_mnist", "2x2",
        f"{TWO_NODES} hierarchical --allreduce ring --exchange whole"),
    Run("mnist-2x2-overlapped", "train_mnist", "2x2",
        f"{TWO_NODES} hierarchical --allreduce ring --exchange overlapped"),
    Run("mnist-2x2-slices", "train_mnist", "2x2",
        f"{TWO_NODES} two_dimensional --allreduce halving-doubling --exchange slices "
        "--wire-dtype bf16"),
    Run("mnist-2x2-double-buffered", "train_mnist", "2x2",
        f"{MNIST} --communicator hierarchical --allreduce tree --exchange double-buffered",
        is_resumed=True),
    Run("lenet-2", "train_lenet", "2",
        "--data {data}/mnist --global-batch 16 --optimizer momentum_sgd --lr 0.01 "
        "--communicator flat --allreduce direct"),
    Run("cifar-1", "train_cifar", "1", f"{CIFAR} --batchsize 10"),
    Run("cifar-2", "train_cifar", "2", f"{CIFAR} --global-batch 10 --sync-bn", is_resumed=True),
    Run("lm-2", "train_lm", "2",
        "--data {data}/text --layers 1 --heads 2 --width 32 --context 16 --global-batch 16 "
        "--shard-optimizer", is_resumed=True),
    Run("seq2seq-2", "train_seq2seq", "2",
        "--source {data}/source --target {data}/target --unit 32 --layer 2 --global-batch 16"),
    Run("dcgan-2", "train_dcgan", "2",
        "--dataset mnist --data {data}/mnist --channels 8 --global-batch 16"),
]


def on_ranks(ranks, words):
    if ranks == "1":
        return words
    if ranks == "2":
        return ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", *words]
    return [ROOT / "tests/cluster/run.sh", "--slots", "2,2", "--", *words]


def train(version, run, out, limit, *flags):
    """A run with one version's program; its files go to `out`, what it prints beside it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    data, printed = out.parents[1] / "data", out.with_suffix(".txt")
    words = [version / "build/apps" / run.program, *FLAGS,
             *(word.format(data=data) for word in run.flags.split()), "--out", out, *flags]
    code = execute(on_ranks(run.ranks, words), printed, limit, env={
        **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if code != 0:
        raise (Skipped if code == 77 else Failure)(reason_in(printed))


def compare(run, old, new, work, limit):
    """Rows of the table: a title, and the results that must be equal, or a Failure instead."""
    def trained(version, name, *flags, saved_by=None):
        out = work / run.name / name
        try:
            if saved_by:
                stopped = out.with_name(f"{name}-stopped")
                train(saved_by, run, stopped, limit, "--max-iterations", str(STOP))
                flags = ("--resume", stopped / f"checkpoints/iter_{STOP}")
            train(version, run, out, limit, "--max-iterations", str(STEPS), *flags)
            return results(out, STEPS)
        except Failure as failure:
            return failure

    expected = trained(old, "old")
    yield run.name, expected, trained(new, "new")
    if run.is_resumed:
        yield f"{run.name}, resumed", expected, trained(new, "resumed", saved_by=new)
        yield (f"{run.name}, resumed from old", expected,
               trained(new, "resumed-from-old", saved_by=old))


def short(found):
    if isinstance(found, Failure):
        return found.word
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]


def verdict(old, new):
    if isinstance(old, Skipped) and isinstance(new, Skipped):
        return "skipped"
    if isinstance(old, Failure) or isinstance(new, Failure):
        return "failed"
    return "equal" if old == new else "different"


def differences(old, new):
    """In lines: what failed, or what is the first difference in log, weights and states."""
    failed = [f"{side} {found.word}: {found}" for side, found in (("old", old), ("new", new))
              if isinstance(found, Failure)]
    if failed:
        return failed
    lines = []
    for what in ("log", *SAVED):
        names = sorted(name for name in old.keys() | new.keys()
                       if name.startswith(what) and old.get(name) != new.get(name))
        if names:
            first, more = names[0], f", and {len(names) - 1} more" if names[1:] else ""
            values = " and ".join(str(found.get(first, "none"))[:12] for found in (old, new))
            lines.append(f"{first}: {values}{more}")
    return lines


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)


@contextlib.contextmanager
def built(version, folder, programs):
    """The folder of a version; of a commit, a checkout that is removed afterwards."""
    if pathlib.Path(version).is_dir():
        yield pathlib.Path(version).resolve()
        return
    try:
        added = git("worktree", "add", "--detach", folder, version)
        if added.returncode != 0:
            raise Failure(f"{version}: {added.stderr.splitlines()[-1]}")
        print(f"building {version}", flush=True)
        printed = folder.with_suffix(".txt")
        for words in (["--preset", "release", "-DTASUKI_BUILD_TESTS=OFF",
                       "-DTASUKI_BUILD_BENCH=OFF", "-DTASUKI_CUDA=OFF"],
                      ["--build", "--preset", "release", "--target", *programs]):
            if execute(["cmake", *words], printed, cwd=folder) != 0:
                raise Failure(f"{version} cannot be built: {reason_in(printed)}")
        yield folder
    finally:
        git("worktree", "remove", "--force", folder)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, usage="compare_bits.py [flags] OLD NEW",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="OLD NEW",
                        help="commits, or folders with build/apps")
    parser.add_argument("--runs", default="", metavar="REGEX", help="only runs whose names match")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS",
                        help="ends a run that takes longer (default: 120)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER",
                        help="keep data, results and what the runs print here")
    parser.error = lambda message: parser.exit(64, f"compare_bits.py: {message}; --help says more\n")
    arguments = parser.parse_args()
    if len(arguments.versions) != 2:
        parser.error(f"OLD and NEW expected, found '{' '.join(arguments.versions)}'")
    try:
        arguments.runs = [run for run in RUNS if re.search(arguments.runs, run.name)]
    except re.error as error:
        parser.error(f"--runs: {error}")
    if not arguments.runs:
        parser.error(f"--runs: expected one of {', '.join(run.name for run in RUNS)}")
    if arguments.keep and arguments.keep.exists() and any(arguments.keep.iterdir()):
        parser.error(f"--keep: {arguments.keep} is not empty")
    for version in arguments.versions:
        if pathlib.Path(version).is_dir():
            missing = [run.program for run in arguments.runs
                       if not (pathlib.Path(version) / "build/apps" / run.program).exists()]
            if missing:
                parser.error(f"{version} has no build/apps/{missing[0]}")
        elif git("rev-parse", "--verify", "--quiet", f"{version}^{{commit}}").returncode != 0:
            parser.error(f"{version} is neither a folder nor a commit")
    return arguments


def main():
    arguments = parse()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    programs = sorted({run.program for run in arguments.runs})
    verdicts, notes = [], []
    with contextlib.ExitStack() as stack:
        work = arguments.keep or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="compare_bits."))
        work = pathlib.Path(work).resolve()
        write_data(work / "data")
        try:
            old, new = (stack.enter_context(built(version, work / name, programs))
                        for version, name in zip(arguments.versions, ("old", "new")))
        except Failure as failure:
            sys.exit(f"compare_bits.py: {failure}")
        print(f"{'run':44}{'old':14}new", flush=True)
        for run in arguments.runs:
            for title, *found in compare(run, old, new, work, arguments.timeout):
                verdicts.append(verdict(*found))
                notes += [f"{title}: {line}" for line in differences(*found)]
                print(f"{title:44}{short(found[0]):14}{short(found[1]):14}{verdicts[-1]}",
                      flush=True)
    print(*notes, ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)),
          sep="\n")
    sys.exit("different" in verdicts or "failed" in verdicts)


if __name__ == "__main__":
    main()
