#!/usr/bin/env python3
"""Checks that the oldest supported cuBLASLt, cuDNN and NCCL have all that libtasuki_cuda.so needs of them
(symbols/, made by make_symbol_lists.py).

  check_symbols.py LIBRARY [FOLDER OF LISTS]
"""
import pathlib
import sys

from symbols_of import needed

LISTS = pathlib.Path(__file__).resolve().parent / "symbols"


def main():
    library, lists = sys.argv[1], pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else LISTS)
    wrong, count = [], 0
    for path in sorted(lists.glob("*.txt")):
        prefix = path.name.split("-")[0]
        uses = needed(library, prefix)
        if not uses:
            wrong.append(f"{library} needs no function {prefix}...")
        missing = uses - set(path.read_text(encoding="utf-8").split())
        wrong += [f"{path.stem} does not have {name}" for name in sorted(missing)]
        count += len(uses)
    print(*wrong, f"{count} functions, {len(wrong)} of these lines", sep="\n")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
