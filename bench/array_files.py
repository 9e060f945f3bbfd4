#!/usr/bin/env python3
"""How fast batches are read from HDF5 files, compared with the same arrays in .npy files, as a Markdown table.

    bench/array_files.py [--build DIR] [--runs N]       # needs python3-numpy and python3-h5py

Two arrays, which are in the page cache: 60,000 x 28 x 28 uint8 (47 MB, as Fashion-MNIST's images where Debian's
package is installed), and 6,000 x 3 x 64 x 64 float32 (295 MB, smooth pictures with noise). Batches of 100. Medians of
N runs, which take turns.
"""
import argparse
import gzip
import pathlib
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIANS = pathlib.Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")


def digits():
    if DEBIANS.exists():
        return np.frombuffer(gzip.decompress(DEBIANS.read_bytes())[16:], np.uint8).reshape(-1, 28, 28)
    print(f"no {DEBIANS}: made-up images", file=sys.stderr)
    random = np.random.default_rng(0)
    return (random.integers(0, 256, (60000, 28, 28)) * (random.random((60000, 28, 28)) < 0.5)).astype(np.uint8)


def pictures():
    random = np.random.default_rng(1)
    waves = np.sin(np.linspace(0, 6, 64))[:, None] * np.cos(np.linspace(0, 4, 64))[None, :]
    noise = random.integers(0, 16, (6000, 3, 64, 64)) / 256
    return (random.random((6000, 3, 1, 1)) * waves + noise).astype(np.float32)


def write(folder):
    """(name of the array, how it is stored, the benchmark's arguments) of each file."""
    for name, values, rows in (("uint8", digits(), 64), ("float32", pictures(), 8)):
        np.save(folder / f"{name}.npy", values)
        yield name, ".npy", ["npy", folder, f"{name}.npy"]
        np.savez(folder / f"{name}.npz", a=values)
        yield name, ".npz", ["npy", folder / f"{name}.npz", "a"]
        layouts = {"contiguous": {}, f"chunks of {rows} rows": {"chunks": (rows, *values.shape[1:])},
                   "chunks that h5py chooses": {"chunks": True},
                   f"chunks of {rows} rows, gzip 4": {"chunks": (rows, *values.shape[1:]), "compression": "gzip"}}
        for number, (layout, how) in enumerate(layouts.items()):
            path = folder / f"{name}{number}.h5"
            with h5py.File(path, "w") as file:
                file.create_dataset("a", data=values, **how)
            yield name, f"HDF5, {layout}", ["hdf5", path, "a"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.error = lambda message: parser.exit(64, f"array_files.py: {message}; --help says more\n")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tasuki-arrays-") as place:
        files = list(write(pathlib.Path(place)))
        found = {}
        for _ in range(options.runs):
            for name, stored, words in files:
                ran = subprocess.run([options.build / "bench/bench_array_files", *words], check=True,
                                     capture_output=True, text=True)
                for line in ran.stdout.splitlines():
                    order, examples, _ = line.split()
                    found.setdefault((name, stored, order), []).append(float(examples))
    print("| values | stored as | in order, examples/s | of .npy | shuffled, examples/s | of .npy |")
    print("|---|---|--:|--:|--:|--:|")
    for name, stored, _ in files:
        row = f"| {name} | {stored} |"
        for order in ("in_order", "shuffled"):
            median = statistics.median(found[name, stored, order])
            row += f" {median:,.0f} | {median / statistics.median(found[name, '.npy', order]):.2f} |"
        print(row)


if __name__ == "__main__":
    main()
