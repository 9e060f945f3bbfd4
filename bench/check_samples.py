#!/usr/bin/env python3
"""Whether the images of a generator look like all classes, by what a classifier says about them.

    build/apps/train_dcgan --dataset fashion-mnist --samples 1000 --out gan ...
    build/apps/train_lenet --data DIR --out lenet ...
    build/apps/tasuki-predict lenet --data gan/samples-idx3-ubyte --format csv --out samples.csv --quiet
    bench/check_samples.py samples.csv

Prints the classes' shares and the mean probability of the first prediction. Exit code 1 if fewer than
--classes classes have a share of at least --least, or the mean probability is below --confidence: a
generator that has collapsed makes images of few classes.
"""
import argparse
import collections
import csv
import statistics
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=argparse.FileType())
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--least", type=float, default=0.01, help="share of a class that counts")
    parser.add_argument("--confidence", type=float, default=0.8)
    options = parser.parse_args()

    rows = list(csv.DictReader(options.predictions))
    if not rows:
        sys.exit(f"{options.predictions.name}: expected a prediction on each line, found none")
    numbers = collections.Counter(row["prediction"] for row in rows)
    for name, number in numbers.most_common():
        print(f"{name:<16} {number:6} {number / len(rows):6.1%}")
    confidence = statistics.mean(float(row["probability"]) for row in rows)
    made = sum(number >= options.least * len(rows) for number in numbers.values())
    print(f"{len(rows)} images, {made} classes, mean probability {confidence:.3f}")
    return 0 if made >= options.classes and confidence >= options.confidence else 1


if __name__ == "__main__":
    sys.exit(main())
