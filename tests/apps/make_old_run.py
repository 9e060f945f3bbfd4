#!/usr/bin/env python3
"""Makes old_run/: a checkpoint and a snapshot of two ranks in the middle of an epoch, and
continued.json: what the version that saved them trained from there. resume_test.cpp checks that the
present version continues them alike, so they are not made anew when the format changes: another
folder is added then.

    make_old_run.py TRAIN_MNIST        (old_run/ is of commit cc6bb27)

Needs a C++ compiler and mpirun.
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# Adam's states are in a file beside the checkpoint's state.npz.
FLAGS = ["--unit", "2", "--shards", "2", "--global-batch", "48", "--shard-optimizer", "--lr", "0.02",
         "--lr-schedule", "cosine", "--weight-decay", "0.001", "--epoch", "2", "--threads", "1"]


def write_digits(folder):
    """The data of TrainMnist (train_mnist_job.hpp)."""
    source = folder / "main.cpp"
    source.write_text(
        '#include "digits.hpp"\n'
        'int main(int, char** argv) { tasuki::testing::write_digits(argv[1], 480, 100); }\n')
    support = HERE.parent / "support"
    subprocess.run(["c++", "-std=c++20", f"-I{support}", source, support / "digits.cpp", "-o",
                    folder / "digits"], check=True)
    subprocess.run([folder / "digits", folder / "data"], check=True)


def kept_values(snapshot):
    """Weights and states in five digits; of large arrays every 16th value."""
    kept = {}
    with zipfile.ZipFile(snapshot) as archive:
        for name in archive.namelist():
            array = archive.read(name)
            (header,) = struct.unpack_from("<H", array, 8)
            if name.startswith("updater/") and b"'<f4'" in array[:10 + header]:
                values = [float(f"{value:.5g}")
                          for (value,) in struct.iter_unpack("<f", array[10 + header:])]
                kept[name.removesuffix(".npy")] = values[::16 if len(values) > 100 else 1]
    return kept


def main():
    program = sys.argv[1]
    made = HERE / "old_run"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_digits(folder)
        run = ["mpirun", "-np", "2", "--oversubscribe", program, "--data", folder / "data", *FLAGS]
        subprocess.run([*run, "--out", folder / "part", "--max-iterations", "15"], check=True)
        subprocess.run([*run, "--out", folder / "whole"], check=True)
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(folder / "part/checkpoints", made / "checkpoints")
        shutil.copy(folder / "part/snapshot_iter_15", made)
        losses = [entry["main/loss"] for entry in json.loads((folder / "whole/log").read_text())]
        arrays = kept_values(folder / "whole/snapshot_iter_20")
    (made / "continued.json").write_text(json.dumps({"losses": losses, "arrays": arrays}) + "\n")


if __name__ == "__main__":
    main()
