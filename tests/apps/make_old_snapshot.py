#!/usr/bin/env python3
"""Makes old_snapshot.npz and old_snapshot.json: a snapshot of an earlier version of Tasuki, and what that
version trained from it. resume_test.cpp checks that the present version continues it alike.

    make_old_snapshot.py TRAIN_MNIST_OF_COMMIT_4a628eb

Needs a C++ compiler.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from make_old_run import kept_values, write_digits

HERE = pathlib.Path(__file__).parent
FLAGS = ["-b", "48", "--unit", "2", "--seed", "0", "--optimizer", "momentum_sgd", "--lr", "0.02", "--weight-decay", "0.001",
         "--threads", "1"]


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_digits(folder)
        run = [program, "--data", folder / "data", "--out", folder / "out", *FLAGS]
        subprocess.run([*run, "--epoch", "2", "--snapshot-every", "1"], check=True)
        before, after = (folder / f"out/snapshot_iter_{n}" for n in (10, 20))
        (HERE / "old_snapshot.npz").write_bytes(before.read_bytes())
        kept = kept_values(after)
    (HERE / "old_snapshot.json").write_text(json.dumps(kept, indent=None) + "\n")


if __name__ == "__main__":
    main()
