#!/usr/bin/env python3
"""Writes tests/models/torchvision_models.json, which torchvision_test.cpp compares with: names and
shapes of all arrays of torchvision's networks, and their scores for weights, statistics and images
that both sides compute in the same way.

    python3 tests/models/make_torchvision_models.py      # needs torch and torchvision
"""

import json
import pathlib

import numpy as np
import torch
import torchvision

HERE = pathlib.Path(__file__).parent
CLASSES = 10
MODELS = {"resnet18": 70, "resnet50": 64, "vgg16_bn": 224, "alexnet": 224}


def scattered(shape, scale):
    """Values in [-scale, scale) without an apparent order, each a hash of its position."""
    hashes = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64)
    for factor, shift in [(2654435761, 15), (2246822519, 13), (3266489917, 16)]:
        hashes = hashes * np.uint64(factor) % 2**32
        hashes ^= hashes >> np.uint64(shift)
    return torch.from_numpy(((hashes / 2**31 - 1) * scale).astype(np.float32).reshape(shape))


def values_of(name, shape):
    if name.endswith("num_batches_tracked"):
        return torch.tensor(7)
    if name.endswith("running_var"):
        return 1 + scattered(shape, 0.5)
    if len(shape) > 1:
        return scattered(shape, np.sqrt(6 / np.prod(shape[1:])))
    return scattered(shape, 0.1) + (1 if name.endswith("weight") else 0)


def describe(name, side):
    model = getattr(torchvision.models, name)(num_classes=CLASSES).eval()
    state = {key: values_of(key, tuple(value.shape)) for key, value in model.state_dict().items()}
    model.load_state_dict(state)
    with torch.no_grad():
        scores = model(scattered((2, 3, side, side), 1))
    full = getattr(torchvision.models, name)()
    return {"side": side,
            "count": sum(parameter.numel() for parameter in full.parameters()),
            "arrays": {key: list(value.shape) for key, value in sorted(state.items())},
            "scores": [float("%.6g" % value) for value in scores.flatten()]}


if __name__ == "__main__":
    lines = ",\n".join(f'"tv_{name}": {json.dumps(describe(name, side), separators=(",", ":"))}'
                       for name, side in MODELS.items())
    (HERE / "torchvision_models.json").write_text(f"{{\n{lines}\n}}\n")
