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


def arithmetic(rng):
    positive = lambda *shape: draw(rng, *shape).abs() + 0.5
    shapes = [((5, 7), (5, 7)), ((4, 1, 3), (2, 1)), ((6,), (3, 6)), ((), (2, 3)), ((2, 3), (1,)),
              ((2, 1, 3, 1, 2, 1), (1, 2, 1, 2, 1, 2)), ((3, 5, 4, 4), (5, 1, 1)),
              ((40, 3), (40, 1))]
    for name, function in [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul),
                           ("div", torch.div), ("maximum", torch.maximum),
                           ("minimum", torch.minimum), ("pow", torch.pow)]:
        for left, right in shapes if name in ("sub", "mul") else shapes[:6]:
            a = positive(*left) if name == "pow" else draw(rng, *left)
            b = positive(*right) if name in ("div", "pow") else draw(rng, *right)
            if name in ("maximum", "minimum"):  # differences must not cross the other operand
                a, b = (a * 4).round() / 2, (b * 4).round() / 2 + 0.25
            yield case(name, lambda a, b: function(a, b), {"a": a, "b": b}, rng)
    for left, right in shapes[:4]:
        condition = (draw(rng, *torch.broadcast_shapes(left, right)) > 0).double()
        yield case("where", lambda condition, a, b: torch.where(condition > 0, a, b),
                   {"condition": condition, "a": draw(rng, *left), "b": draw(rng, *right)}, rng,
                   constants=["condition"])
    yield case("expression", lambda a, b: 1 - a * b / 4 + (2 / b - a) * 3 - 0.5 - -a / b,
               {"a": draw(rng, 4, 5), "b": positive(5)}, rng)


def reductions(rng):
    for shape, axes, keep in [
            ((4, 5), [], False), ((4, 5), [0], False), ((4, 5), [1], True), ((4, 5), [-1], False),
            ((3, 4, 5, 2), [0, 2], True), ((3, 4, 5, 2), [1, 3], False),
            ((2, 3, 2, 2, 3, 2), [0, 2, 3, 5], False), ((2, 3, 2, 2, 3, 2), [1, 2, 4], True),
            ((1, 7, 1), [0, 2], False), ((7, 1), [0], True), ((), [], False), ((1,), [0], False)]:
        options = {"axes": axes, "keepdims": keep}
        kept = lambda f: lambda x: f(x, axes if axes else list(range(x.dim())), keep)
        yield case("sum", kept(torch.sum) if shape else lambda x: x.sum(), {"x": draw(rng, *shape)},
                   rng, options=options)
        yield case("mean", kept(torch.mean) if shape else lambda x: x.mean(),
                   {"x": draw(rng, *shape)}, rng, options=options)
        for name, f in [("max", torch.amax), ("min", torch.amin)]:
            values = torch.tensor(rng.permutation(int(torch.tensor(shape).prod())) / 7 - 3)
            yield case(name, kept(f) if shape else lambda x: x * 1, {"x": values.reshape(shape)},
                       rng, options=options)


def rearranged(rng):
    for shape, axes in [((3, 4), []), ((3, 4), [1, 0]), ((2, 3, 4), [0, 2, 1]), ((5, 6, 7), [2, 0, 1]),
                        ((2, 3, 4, 5), [0, 2, 1, 3]), ((2, 3, 4, 5), [3, 1, -2, 0]),
                        ((2, 1, 3, 2, 1, 4), [5, 0, 3, 1, 2, 4]), ((33, 20), []), ((), []),
                        ((2, 37, 3, 19), [0, 3, 2, 1])]:
        order = axes or list(range(len(shape)))[::-1]
        yield case("transpose", lambda x: x.permute(order), {"x": draw(rng, *shape)}, rng,
                   options={"axes": axes})
    for shape, to in [((3, 1), (3, 4)), ((4,), (2, 3, 4)), ((), (2, 2)), ((2, 3), (2, 3)),
                      ((1, 2, 1, 3, 1, 1), (2, 2, 4, 3, 1, 2))]:
        yield case("broadcast_to", lambda x: x.broadcast_to(to).clone(), {"x": draw(rng, *shape)},
                   rng, options={"shape": to})
    for shape, ranges in [((5, 6), [[1, 4]]), ((5, 6), [[0, 99], [2, -1]]), ((5, 6), [[-3, -1], [1, 2]]),
                          ((7,), [[0, 7]]), ((2, 3, 2, 3, 2, 3), [[1, 2], [0, 3], [0, 1], [1, 3]])]:
        place = tuple(slice(b, e) for b, e in ranges)
        yield case("slice", lambda x: x[place], {"x": draw(rng, *shape)}, rng,
                   options={"ranges": ranges})
    yield case("get_item", lambda x: x[-2], {"x": draw(rng, 4, 3)}, rng,
               options={"index": -2, "axis": 0})
    yield case("get_item", lambda x: x[:, :, 1], {"x": draw(rng, 2, 3, 4)}, rng,
               options={"index": 1, "axis": -1})
    # Parts are used in other orders and numbers of times, one of them not at all.
    yield case("split", lambda x: (p := x.split(2, 1))[2] * p[0] + p[0], {"x": draw(rng, 3, 6)}, rng)
    yield case("split_at", lambda x: x[1:4] * x[4:7], {"x": draw(rng, 7, 2)}, rng)
    yield case("separate", lambda x: x[:, 0] * x[:, 1] - x[:, 2], {"x": draw(rng, 5, 3)}, rng)
    for axis in [0, 1, -1]:
        yield case("stack", lambda a, b: torch.stack([a, b, a], axis),
                   {"a": draw(rng, 2, 3), "b": draw(rng, 2, 3)}, rng, options={"axis": axis})
    for shape, widths, value in [((3, 4), [[1, 2], [0, 3]], 0), ((3,), [[2, 0]], 1.5),
                                 ((2, 2, 3, 2), [[0, 0], [0, 0], [1, 1], [2, 1]], -1)]:
        flat = [w for pair in reversed(widths) for w in pair]
        yield case("pad", lambda x: F.pad(x, flat, value=value), {"x": draw(rng, *shape)}, rng,
                   options={"widths": widths, "value": value})


def matmul(rng):
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 2, 4), (2, 3, 4, 1)),
                 ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((1, 1, 1), (1, 1, 1)),
                 ((2, 1, 2, 1, 3, 4), (2, 1, 2, 1, 4, 2))]:
        for ta in [False, True]:
            for tb in [False, True]:
                left = draw(rng, *a).transpose(-1, -2).contiguous() if ta else draw(rng, *a)
                right = draw(rng, *b).transpose(-1, -2).contiguous() if tb else draw(rng, *b)
                turned = lambda x, t: x.transpose(-1, -2) if t else x
                yield case("matmul", lambda a, b: turned(a, ta) @ turned(b, tb),
                           {"a": left, "b": right}, rng,
                           options={"transpose_a": ta, "transpose_b": tb})


if __name__ == "__main__":
    write([maps, arithmetic, reductions, rearranged, matmul], first_seed=400)
