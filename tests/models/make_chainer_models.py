#!/usr/bin/env python3
"""Writes tests/models/chainer_models.json, which imagenet_models_test.cpp compares with: paths and
shapes of the parameters of Chainer's ImageNet models, and their scores for weights and images that
both sides compute in the same way.

    build/chainer/bin/python tests/models/make_chainer_models.py    # see scripts/check_chainer.sh
"""

import json
import pathlib
import sys

import chainer
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "chainer"))
import networks  # noqa: E402

CLASSES, ITEMS = 10, 2
MODELS = {"alex": (63, 227), "nin": (63, 227), "googlenetbn": (64, 224),
          "resnet50": (80, 224)}


def scattered(shape, scale):
    """Values in [-scale, scale) without an apparent order, each a hash of its position."""
    hashes = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64)
    for factor, shift in [(2654435761, 15), (2246822519, 13), (3266489917, 16)]:
        hashes = hashes * np.uint64(factor) % 2**32
        hashes ^= hashes >> np.uint64(shift)
    return ((hashes / 2**31 - 1) * scale).astype(np.float32).reshape(shape)


def fill(model):
    for path, parameter in model.namedparams():
        if path.endswith("/W"):
            fan_in = int(np.prod(parameter.shape[1:]))
            parameter.data[...] = scattered(parameter.shape, np.sqrt(6 / fan_in))


def numbers_of(values):
    return [float("%.6g" % v) for v in np.asarray(values).ravel()]


def describe(name, side, insize):
    model = getattr(networks, name)(CLASSES, side)
    images = scattered((ITEMS, 3, side, side), 1)
    with chainer.using_config("train", False):
        model(images)  # gives parameters their shapes
        fill(model)
        scores = model(images)
    full = getattr(networks, name)(1000, insize)
    with chainer.using_config("train", False):
        full(np.zeros((1, 3, insize, insize), np.float32))
    return {
        "side": side,
        "insize": insize,
        "count": sum(int(parameter.size) for parameter in full.params()),
        "parameters": {path[1:]: list(p.shape) for path, p in sorted(model.namedparams())},
        "scores": [numbers_of(s.data)
                   for s in (scores if isinstance(scores, tuple) else (scores,))],
    }


if __name__ == "__main__":
    models = {name: describe(name, *sides) for name, sides in MODELS.items()}
    lines = ",\n".join(f'"{name}": {json.dumps(model, separators=(",", ":"))}'
                       for name, model in models.items())
    (HERE / "chainer_models.json").write_text(f"{{\n{lines}\n}}\n")
