#!/usr/bin/env python3
"""Computes what tests/nn/array_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_array_references.py
"""

import torch
import torch.nn.functional as F

from reference_cases import case, draw, write


def maps(rng):
    positive = lambda *shape: draw(rng, *shape).abs() + 0.5
    # Away from kinks, where differences would see both sides.
    apart = lambda *shape: torch.where((v := draw(rng, *shape)).abs() < 0.05, v + 0.2, v)
    for name, function, x in [
            ("neg", torch.neg, draw(rng, 3, 7)), ("exp", torch.exp, draw(rng, 4, 9)),
            ("exp", torch.exp, draw(rng, 2, 3) * 3 + 40),
            ("log", torch.log, positive(5, 8)), ("log", torch.log, positive(17) * 100),
            ("sqrt", torch.sqrt, positive(2, 3, 4)), ("abs", torch.abs, apart(33)),
            ("gelu", F.gelu, draw(rng, 7, 31) * 2),
            ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), draw(rng, 7, 31) * 2),
            ("silu", F.silu, draw(rng, 6, 19) * 3), ("silu", F.silu, draw(rng, 1))]:
        yield case(name, lambda x: function(x), {"x": x}, rng)
    for p, x in [(2, draw(rng, 9)), (3, draw(rng, 9)), (0.5, positive(9)), (-1.5, positive(9)),
                 (5, draw(rng, 9)), (1, draw(rng, 9)), (-1, positive(9))]:
        yield case("pow", lambda x: x**p, {"x": x}, rng, options={"p": p})
    yield case("clip", lambda x: x.clip(-0.5, 0.8), {"x": apart(40)}, rng,
               options={"low": -0.5, "high": 0.8})
    for alpha in [1, 0.3]:
        yield case("elu", lambda x: F.elu(x, alpha), {"x": apart(37)}, rng,
                   options={"alpha": alpha})
    for beta in [1, 2.5, 30]:
        yield case("softplus", lambda x: F.softplus(x, beta, threshold=1e4), {"x": draw(rng, 37)},
                   rng, options={"beta": beta})


if __name__ == "__main__":
    write([maps], first_seed=400)
