#!/usr/bin/env python3
"""Images of CIFAR-10 in files, as train_imagenet and predict take them: OUT/train/CLASS/N.jpg and OUT/test.

    bench/make_image_folder.py ~/.cache/tasuki/cifar10 OUT --side 64 --train 500 --test 100 --classes cat frog

DATA has the binary version (scripts/get_data.sh cifar10). The first images of each class are scaled to
--side pixels (bicubic; JPEG, quality 90). Needs Pillow.
"""
import argparse
import collections
import pathlib
import sys

from PIL import Image

PIXELS = 32 * 32


def records(file):
    """Label and pixels of each record: a byte, then the planes of red, green and blue."""
    data = file.read_bytes()
    size = 1 + 3 * PIXELS
    if not data or len(data) % size:
        sys.exit(f"{file}: expected records of {size} bytes, found {len(data)} bytes")
    for begin in range(0, len(data), size):
        yield data[begin], data[begin + 1:begin + size]


def image_of(pixels):
    planes = [Image.frombytes("L", (32, 32), pixels[c * PIXELS:(c + 1) * PIXELS]) for c in range(3)]
    return Image.merge("RGB", planes)


def write(files, names, classes, folder, side, most):
    wanted = [names.index(name) for name in classes]
    written = collections.Counter()
    for name in classes:
        (folder / name).mkdir(parents=True)
    for file in files:
        for label, pixels in records(file):
            if label not in wanted or written[label] == most:
                continue
            scaled = image_of(pixels).resize((side, side), Image.Resampling.BICUBIC)
            scaled.save(folder / names[label] / f"{written[label]:04}.jpg", quality=90)
            written[label] += 1
        if all(written[label] == most for label in wanted):
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--side", type=int, default=64, help="height and width in pixels")
    parser.add_argument("--train", type=int, default=5000, help="images of a class to train on")
    parser.add_argument("--test", type=int, default=1000, help="images of a class to test on")
    parser.add_argument("--classes", nargs="+", metavar="NAME", help="default: all")
    options = parser.parse_args()
    names = (options.data / "batches.meta.txt").read_text().split()
    classes = options.classes or names
    if unknown := [name for name in classes if name not in names]:
        parser.error(f"--classes: expected names among {', '.join(names)}, found {', '.join(unknown)}")
    batches = [options.data / f"data_batch_{i}.bin" for i in range(1, 6)]
    write(batches, names, classes, options.out / "train", options.side, options.train)
    write([options.data / "test_batch.bin"], names, classes, options.out / "test", options.side, options.test)


if __name__ == "__main__":
    main()
