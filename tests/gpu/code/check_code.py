#!/usr/bin/env python3
"""Checks the machine code of libtasuki_cuda.so, without a GPU: local memory, loads and stores of 16 bytes,
how often loops use what they load from shared memory, routines that they call (expectations.py).

  check_code.py LIBRARY
"""
import sys

import expectations
from code_rules import check_calls, check_packs, check_reuse, check_shared_stores, check_stacks
from machine_code import kernels


def main():
    (library,) = sys.argv[1:]
    found = list(kernels(library))
    if not found:
        print("skipped: the CUDA backend has no code for compute capability 9.0, which these rules are about")
        return 77
    wrong = [
        *check_stacks(found, expectations.STACKS),
        *check_packs(found, expectations.PACKS),
        *check_calls(found, expectations.CALLS_FOR_FEW_VALUES, expectations.CALLS),
        *check_reuse(found, expectations.REUSE),
        *check_shared_stores(found, expectations.SUMS_IN_REGISTERS),
    ]
    print(*wrong, f"{len(found)} kernels, {len(wrong)} of these lines", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
