#!/usr/bin/env python3
"""Computes what tests/nn/normalization_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_normalization_references.py
"""

import torch.nn.functional as F

from reference_cases import case, draw, write


def softmax(rng):
    for name, function in [("softmax", F.softmax), ("log_softmax", F.log_softmax)]:
        for shape, axis in [((3, 5), 1), ((2, 37), 1), ((4, 3, 2), 2), ((3, 4, 5), 1), ((5, 70), 0)]:
            yield case(name, lambda x: function(x, axis), {"x": draw(rng, *shape) * 3}, rng,
                       options={"axis": axis})


def normalization(rng):
    for shape, size in [((3, 7), 7), ((4, 35), 35), ((2, 3, 16), 16), ((2, 3, 4), 12)]:
        for eps in [1e-6, 0.1]:
            sizes = shape[-1:] if size == shape[-1] else shape[1:]
            yield case("layer_norm",
                       lambda x, gamma, beta: F.layer_norm(x, sizes, gamma.reshape(sizes),
                                                           beta.reshape(sizes), eps),
                       {"x": draw(rng, *shape) * 2 + 1, "gamma": draw(rng, size),
                        "beta": draw(rng, size)}, rng, options={"eps": eps})
    for shape, groups in [((3, 6), 2), ((2, 4, 3, 5), 2), ((2, 3, 21), 1), ((2, 4, 9), 4)]:
        yield case("group_norm",
                   lambda x, gamma, beta: F.group_norm(x, groups, gamma, beta, 1e-3),
                   {"x": draw(rng, *shape) * 2 - 1, "gamma": draw(rng, shape[1]),
                    "beta": draw(rng, shape[1])}, rng, options={"groups": groups, "eps": 1e-3})


if __name__ == "__main__":
    write([softmax, normalization], first_seed=700)
