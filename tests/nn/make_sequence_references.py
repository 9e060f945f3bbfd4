#!/usr/bin/env python3
"""Computes what tests/nn/sequence_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_sequence_references.py
"""

import torch

from reference_cases import case, draw, write


def embed_id(rng):
    for rows, columns, shape, ignore in [(6, 5, (9,), None), (50, 33, (4, 7), None),
                                         (4, 16, (3, 2, 5), -1), (7, 3, (11,), 2)]:
        ids = torch.tensor(rng.integers(0, rows, shape))
        if ignore is not None:
            ids[rng.random(shape) < 0.3] = ignore

        def function(t, w):
            y = w[t.clamp(min=0)]
            return y if ignore is None else torch.where((t == ignore)[..., None], 0.0, y)

        yield case("embed_id", function, {"t": ids, "w": draw(rng, rows, columns)}, rng,
                   options={} if ignore is None else {"ignore": ignore})


if __name__ == "__main__":
    write([embed_id], first_seed=500)
