#!/usr/bin/env python3
"""Computes what tests/nn/reference_test.cpp compares with.

    python3 tests/nn/make_references.py        # writes tests/nn/references/*.json

Each file holds the cases of one function: settings, inputs, the result, a random gradient of the
result ("upstream") and the gradients of the inputs that follow from it. Needs PyTorch and NumPy; any
version will do. The results are committed, so that the tests need neither.
"""

import numpy as np
import torch
import torch.nn.functional as F

from reference_cases import case, distinct, draw, pack, write


def linear(rng):
    for name, (n, i, o), bias in [("plain", (5, 7, 3), True), ("no_bias", (4, 6, 5), False),
                                  ("wide", (3, 20, 33), True), ("one_example", (1, 9, 4), True)]:
        inputs = {"x": draw(rng, n, i), "w": draw(rng, o, i)}
        if bias:
            inputs["b"] = draw(rng, o)
        yield case(name, lambda x, w, b=None: F.linear(x, w, b), inputs, rng)


def conv2d(rng):
    cases = [
        # name, N I H W, O KH KW, stride, pad, dilation, groups, bias
        ("basic", (2, 3, 6, 5), (4, 3, 3), (1, 1), (0, 0), (1, 1), 1, True),
        ("same", (1, 16, 5, 6), (16, 3, 3), (1, 1), (1, 1), (1, 1), 1, False),
        ("stride", (2, 4, 9, 8), (5, 3, 3), (2, 2), (1, 1), (1, 1), 1, True),
        ("uneven", (1, 3, 9, 7), (2, 5, 2), (3, 1), (2, 1), (1, 1), 1, True),
        ("dilation", (2, 3, 9, 9), (4, 3, 3), (1, 1), (2, 2), (2, 2), 1, True),
        ("groups", (2, 6, 5, 5), (4, 3, 3), (1, 1), (1, 1), (1, 1), 2, True),
        ("depthwise", (2, 4, 5, 5), (4, 3, 3), (1, 1), (1, 1), (1, 1), 4, False),
        ("pointwise", (2, 5, 4, 3), (7, 1, 1), (1, 1), (0, 0), (1, 1), 1, True),
        ("grey", (2, 1, 8, 8), (6, 5, 5), (1, 1), (2, 2), (1, 1), 1, True),
        ("whole_image", (3, 2, 4, 4), (3, 4, 4), (1, 1), (0, 0), (1, 1), 1, True),
    ]
    for name, x, w, stride, pad, dilation, groups, bias in cases:
        inputs = {"x": draw(rng, *x), "w": draw(rng, w[0], x[1] // groups, w[1], w[2])}
        if bias:
            inputs["b"] = draw(rng, w[0])
        options = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups}
        yield case(name, lambda x, w, b=None: F.conv2d(x, w, b, stride, pad, dilation, groups),
                   inputs, rng, options=options)


def max_pooling_2d(rng):
    for name, shape, window, stride, pad, cover_all in [
            ("basic", (2, 3, 6, 4), 2, 2, 0, False), ("cover_all", (2, 3, 7, 5), 2, 2, 0, True),
            ("overlap", (1, 4, 8, 7), 3, 2, 1, False), ("overlap_all", (1, 4, 8, 7), 3, 2, 1, True),
            ("many_channels", (2, 17, 5, 5), 3, 2, 0, True)]:
        options = {"window": window, "stride": stride, "pad": pad, "cover_all": cover_all}
        yield case(name, lambda x: F.max_pool2d(x, window, stride, pad, ceil_mode=cover_all),
                   {"x": distinct(rng, *shape)}, rng, options=options)


def average_pooling_2d(rng):
    for name, shape, window, stride, pad in [("basic", (2, 3, 6, 4), 2, 2, 0),
                                             ("padded", (2, 3, 7, 5), 3, 2, 1)]:
        options = {"window": window, "stride": stride, "pad": pad}
        yield case(name, lambda x: F.avg_pool2d(x, window, stride, pad), {"x": draw(rng, *shape)},
                   rng, options=options)


def global_average_pooling_2d(rng):
    for name, shape in [("basic", (2, 3, 6, 4)), ("many_channels", (2, 17, 3, 3))]:
        yield case(name, lambda x: x.mean(dim=(2, 3)), {"x": draw(rng, *shape)}, rng)


def batch_norm(rng):
    for name, shape, relu in [("vectors", (9, 5), False), ("vectors_relu", (8, 16), True),
                              ("images", (4, 3, 5, 5), False), ("images_relu", (2, 16, 3, 4), True),
                              ("odd_relu", (2, 5, 3, 7), True)]:
        inputs = {"x": draw(rng, *shape), "gamma": draw(rng, shape[1]), "beta": draw(rng, shape[1])}

        def run(x, gamma, beta):
            y = F.batch_norm(x, None, None, gamma, beta, training=True, eps=2e-5)
            return F.relu(y) if relu else y

        yield case(name, run, inputs, rng, options={"relu": relu})


def activations(rng):
    functions = {"relu": F.relu, "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
                 "sigmoid": torch.sigmoid, "tanh": torch.tanh}
    for name, function in functions.items():
        for shape in [(5, 7), (2, 3, 2, 4)]:
            yield case(name, lambda x: function(x), {"x": draw(rng, *shape)}, rng)


def softmax_cross_entropy(rng):
    for name, (n, c), ignored in [("basic", (6, 10), 0), ("ignored", (7, 5), 3),
                                  ("wide", (2, 37), 0), ("two_classes", (4, 2), 1)]:
        t = torch.tensor(rng.integers(0, c, n))
        t[:ignored] = -1
        yield case(name, lambda x, t: F.cross_entropy(x, t, ignore_index=-1),
                   {"x": 4 * draw(rng, n, c), "t": t}, rng)


def mean_squared_error(rng):
    for name, shape in [("one", (4, 1)), ("several", (5, 7)), ("images", (2, 3, 2, 4)),
                        ("one_example", (1, 3))]:
        yield case(name, F.mse_loss, {"input": draw(rng, *shape), "target": draw(rng, *shape)},
                   rng, constants=("target",))


def shapes(rng):
    yield case("add", lambda a, b: a + b, {"a": draw(rng, 3, 4, 2), "b": draw(rng, 3, 4, 2)}, rng)
    yield case("add_self", lambda a: a + a, {"a": draw(rng, 3, 4)}, rng)
    yield case("reshape", lambda a: a.reshape(4, 6), {"a": draw(rng, 2, 3, 4)}, rng)
    for axis in (0, 1, 3):
        sizes = [[2, 3, 2, 4], [2, 3, 2, 4], [2, 3, 2, 4]]
        sizes[1][axis], sizes[2][axis] = 1, 5
        inputs = {k: draw(rng, *s) for k, s in zip("abc", sizes)}
        yield case("concat", lambda a, b, c: torch.cat([a, b, c], axis), inputs, rng,
                   options={"axis": axis})


def philox(key, counter):
    """Philox4x32-10 (Salmon et al., SC'11), in Python's integers."""
    mask = 0xFFFFFFFF
    c, k = list(counter), [key & mask, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def dropout(rng):
    seed, ratio, ids = 0x1234567890ABCDEF, 0.4, [5, 70000000000, 0]
    mask = torch.zeros(3, 75, dtype=torch.float64)
    for i, example in enumerate(ids):
        for j in range(75):
            words = philox(seed, [j // 4, 0, example & 0xFFFFFFFF, example >> 32])
            mask[i, j] = ((words[j % 4] >> 8) * 2.0**-24 >= ratio) / (1 - ratio)
    yield case("philox", lambda x: x * mask, {"x": draw(rng, 3, 75)}, rng,
               options={"seed": str(seed), "ratio": ratio, "ids": ids})


def mlp(rng):
    """The whole model: the loss is the result, the parameters are the inputs."""
    sizes = [6, 8, 8, 4]
    inputs = {"x": draw(rng, 5, 6), "t": torch.tensor(rng.integers(0, 4, 5))}
    for layer in (1, 2, 3):
        inputs[f"predictor/l{layer}/W"] = draw(rng, sizes[layer], sizes[layer - 1])
        inputs[f"predictor/l{layer}/b"] = draw(rng, sizes[layer])

    def run(x, t, **p):
        h = F.relu(F.linear(x, p["predictor/l1/W"], p["predictor/l1/b"]))
        h = F.relu(F.linear(h, p["predictor/l2/W"], p["predictor/l2/b"]))
        return F.cross_entropy(F.linear(h, p["predictor/l3/W"], p["predictor/l3/b"]), t)

    yield case("classifier", run, inputs, rng, constants=("x",))


def batch_norm_layer(rng):
    """Two batches move the running averages (Chainer's decay 0.9); then a batch is evaluated."""
    first, second, last = draw(rng, 4, 3, 2, 2), draw(rng, 4, 3, 2, 2), draw(rng, 2, 3, 2, 2)
    layer = torch.nn.BatchNorm2d(3, eps=2e-5, momentum=0.1, dtype=torch.float64)
    layer(first), layer(second)
    layer.eval()
    yield {"name": "two_batches", "first": pack(first), "second": pack(second), "last": pack(last),
           "avg_mean": pack(layer.running_mean), "avg_var": pack(layer.running_var),
           "result": pack(layer(last))}


if __name__ == "__main__":
    write([linear, conv2d, max_pooling_2d, average_pooling_2d, global_average_pooling_2d, batch_norm,
           activations, softmax_cross_entropy, shapes, dropout, mlp, batch_norm_layer,
           mean_squared_error], first_seed=1000)
