#!/usr/bin/env python3
"""Writes the files of arrays/ with NumPy and h5py: small arrays of every type and layout.

    make_arrays.py        # needs python3-numpy and python3-h5py

Values: 7 * row + column, times -0.5 in floating types, -1 in signed ones, modulo 2 in bool, in arrays of 4 x 3
(types) and 20 x 6 (layouts, int16, positive), but for large_chunk.h5 and vast_chunk.h5.
"""
import gzip
import pathlib

import h5py
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent / "arrays"
TYPES = ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
NAMES = [f"{order}{name}" for name in TYPES for order in ("<" if name[1] == "1" else "<>")]

NEW = ("v108", "v110")  # HDF5's formats with checksums, as 1.10 reads them


def array_of(descr):
    values = 7 * np.arange(4)[:, None] + np.arange(3)[None, :]
    if descr[1] == "b":
        return (values % 2).astype(bool)
    factor = {"u": 1, "i": -1, "f": -0.5}[descr[1]]
    return (values * factor).astype(descr)


def key(descr):
    return descr.replace("<", "little_").replace(">", "big_")


def main():
    FOLDER.mkdir(exist_ok=True)
    arrays = {key(descr): array_of(descr) for descr in NAMES}
    np.savez(FOLDER / "types.npz", **{name: arrays[name] for name in list(arrays)[::2]})
    np.savez_compressed(FOLDER / "packed.npz", **{name: arrays[name] for name in
                                                  ("little_f4", "big_i2", "little_u1")})
    np.save(FOLDER / "x.npy", arrays["little_f4"])
    np.save(FOLDER / "t.npy", np.array([3, 1, 0, 2], np.uint8))
    np.save(FOLDER / "five.npy", np.arange(5))
    np.save(FOLDER / "fortran.npy", np.asfortranarray(arrays["little_f4"]))
    np.save(FOLDER / "complex.npy", np.ones((4, 2), np.complex64))
    with h5py.File(FOLDER / "types.h5", "w", libver=NEW) as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, track_times=False)
    rows = (7 * np.arange(20)[:, None] + np.arange(6)[None, :]).astype(np.int16)
    with h5py.File(FOLDER / "layouts.h5", "w", libver=NEW) as file:
        def add(name, **how):
            file.create_dataset(name, data=rows, track_times=False, **how)
        add("run/contiguous")
        add("chunked", chunks=(3, 6))
        add("split", chunks=(8, 4))
        add("gzip", chunks=(3, 6), compression="gzip", shuffle=True)
        add("split_gzip", chunks=(7, 5), compression="gzip", fletcher32=True)
        # Rows 9 and later were never written.
        partly = file.create_dataset("partly", (20, 6), np.int16, chunks=(3, 6), fillvalue=-3,
                                     track_times=False)
        partly[:9] = rows[:9]
        file.create_dataset("unwritten", (20, 6), np.int16, fillvalue=5, track_times=False)
        file.create_dataset("labels", data=(np.arange(20) % 4).astype(">i8"), track_times=False)
        file.create_dataset("scalar", data=3.0, track_times=False)
        file.create_dataset("texts", data=[b"one", b"two"], track_times=False)
        file.create_dataset("pairs", data=np.zeros(2, [("a", "f4"), ("b", "i4")]), track_times=False)
        file["elsewhere"] = h5py.ExternalLink("types.h5", "/little_i2")
        # By a name that is relative to this file.
        layout = h5py.VirtualLayout((4, 3), np.int16)
        layout[:] = h5py.VirtualSource("types.h5", "little_i2", (4, 3))
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(FOLDER / "userblock.h5", "w", userblock_size=512, libver=NEW) as file:
        file.create_dataset("contiguous", data=rows, track_times=False)
        file.create_dataset("chunked", data=rows, chunks=(3, 6), track_times=False)
    with h5py.File(FOLDER / "old.h5", "w", libver=("earliest", "v108")) as file:
        file.create_dataset("gzip", data=rows, chunks=(3, 6), compression="gzip", track_times=False)
        file.create_dataset("contiguous", data=rows, track_times=False)
    # One chunk of 258 MiB, whose rows of 4096 bytes have the value row // 1000.
    with h5py.File(FOLDER / "large_chunk.h5", "w", libver=NEW) as file:
        values = np.repeat((np.arange(66_000) // 1000).astype(np.uint8)[:, None], 4096, axis=1)
        file.create_dataset("x", data=values, chunks=values.shape, compression="gzip",
                            track_times=False)
    # A chunk of 1 GiB of an array of 64 bytes, of which nothing was written.
    with h5py.File(FOLDER / "vast_chunk.h5", "w", libver=NEW) as file:
        file.create_dataset("x", (4, 4), np.float32, maxshape=(None, 4), chunks=(2**26, 4),
                            track_times=False)
    for path in sorted(FOLDER.glob("*.h5")):  # which are mostly zeros
        (FOLDER / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


if __name__ == "__main__":
    main()
