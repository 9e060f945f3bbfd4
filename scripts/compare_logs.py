#!/usr/bin/env python3
"""Compares a value of two runs' logs, entry by entry; exit code 1 when they are further apart.

  compare_logs.py FOUND EXPECTED KEY each|mean|last TOLERANCE

each: every value, relative; mean: the means over all entries, relative; last: the last value there
is, absolute. Both logs must have as many values, at least one.
"""
import json
import sys


def values(path, key):
    with open(path, encoding="utf-8") as file:
        return [entry[key] for entry in json.load(file) if key in entry]


def apart(found, expected, how):
    """How far apart they are, and where that is."""
    if how == "last":
        return abs(found[-1] - expected[-1]), f"{found[-1]:.6g} and {expected[-1]:.6g} at the end"
    if how == "mean":
        a, b = sum(found) / len(found), sum(expected) / len(expected)
        return abs(a - b) / abs(b), f"means {a:.6g} and {b:.6g}"
    pairs = enumerate(zip(found, expected), start=1)
    # What is not a number is as far away as can be.
    far = [(abs(a - b) / abs(b) if a == a and b == b else float("inf"), i, a, b) for i, (a, b) in pairs]
    distance, i, a, b = max(far)
    return distance, f"{a:.6g} and {b:.6g} at entry {i}"


def main():
    if "-h" in sys.argv or "--help" in sys.argv:
        print(__doc__)
        return
    if len(sys.argv) != 6 or sys.argv[4] not in ("each", "mean", "last"):
        print(f"compare_logs.py: FOUND EXPECTED KEY each|mean|last TOLERANCE expected, found "
              f"'{' '.join(sys.argv[1:])}'; compare_logs.py --help says more", file=sys.stderr)
        sys.exit(64)
    found_path, expected_path, key, how, tolerance = sys.argv[1:]
    found, expected = values(found_path, key), values(expected_path, key)
    if not found or len(found) != len(expected):
        sys.exit(f"{key}: {len(found)} values, {len(expected)} expected")
    distance, where = apart(found, expected, how)
    print(f"{key}: {len(found)} values, {how}: {distance:.3g} apart ({where}), allowed {tolerance}")
    sys.exit(not distance <= float(tolerance))


if __name__ == "__main__":
    main()
