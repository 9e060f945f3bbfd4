#!/usr/bin/env python3
"""Computes what tests/nn/response_norm_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_response_norm_references.py
"""

import torch.nn.functional as F

from reference_cases import case, draw, write


def response_norms(rng):
    for shape, window, k, alpha, beta in [
            ((2, 7, 3, 2), 5, 2, 1e-4, 0.75), ((2, 16, 2, 3), 5, 2, 1e-4, 0.75),
            ((1, 32, 3, 2), 5, 1, 0.3, 0.75), ((1, 3, 2, 2), 5, 2, 0.5, 0.6),
            ((2, 9, 2, 2), 3, 0.5, 0.2, 1)]:
        # PyTorch divides alpha by the window's size, Chainer does not.
        yield case("local_response_norm",
                   lambda x: F.local_response_norm(x, window, alpha * window, beta, k),
                   {"x": draw(rng, *shape)}, rng,
                   options={"n": window, "k": k, "alpha": alpha, "beta": beta})


if __name__ == "__main__":
    write([response_norms], first_seed=900)
