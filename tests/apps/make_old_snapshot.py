#!/usr/bin/env python3
"""Makes old_snapshot.npz and old_snapshot.json: a snapshot of an earlier version of Tasuki, and what that
version trained from it. resume_test.cpp checks that the present version continues it alike.

    make_old_snapshot.py TRAIN_MNIST_OF_COMMIT_4a628eb

Needs NumPy and a C++ compiler.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

HERE = pathlib.Path(__file__).parent
FLAGS = ["-b", "48", "--unit", "2", "--seed", "0", "--optimizer", "momentum_sgd", "--lr", "0.02", "--weight-decay", "0.001",
         "--threads", "1"]


def write_digits(folder):
    """The data of TrainMnist (train_mnist_job.hpp)."""
    source = folder / "main.cpp"
    source.write_text('#include "digits.hpp"\n'
                      'int main(int, char** argv) { tasuki::testing::write_digits(argv[1], 480, 100); }\n')
    support = HERE.parent / "support"
    subprocess.run(["c++", "-std=c++20", f"-I{support}", source, support / "digits.cpp", "-o",
                    folder / "digits"], check=True)
    subprocess.run([folder / "digits", folder / "data"], check=True)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_digits(folder)
        run = [program, "--data", folder / "data", "--out", folder / "out", *FLAGS]
        subprocess.run([*run, "--epoch", "2", "--snapshot-every", "1"], check=True)
        before, after = (folder / f"out/snapshot_iter_{n}" for n in (10, 20))
        (HERE / "old_snapshot.npz").write_bytes(before.read_bytes())
        with numpy.load(after) as arrays:
            kept = {key: value.ravel()[::16 if value.size > 100 else 1].tolist()
                    for key, value in arrays.items()
                    if key.startswith("updater/") and value.dtype == numpy.float32}
    (HERE / "old_snapshot.json").write_text(json.dumps(kept, indent=None) + "\n")


if __name__ == "__main__":
    main()
