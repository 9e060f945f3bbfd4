#!/usr/bin/env python3
"""Computes what tests/nn/loss_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_loss_references.py
"""

import torch
import torch.nn.functional as F

from reference_cases import case, draw, write


def general_cross_entropy(rng):
    for name, shape, axis, ignored, smoothing, weighted in [
            ("pixels", (2, 5, 3, 4), 1, -1, 0, False), ("tokens", (3, 4, 7), -1, -1, 0, False),
            ("smooth", (9, 6), 1, -1, 0.1, False), ("smooth_tokens", (2, 3, 20), -1, 0, 0.2, False),
            ("weighted", (8, 5), 1, 255, 0, True), ("all", (2, 4, 11), 1, -1, 0.3, True),
            ("all_ignored", (3, 4), 1, 2, 0.1, False), ("far", (6, 19), 1, -1, 0.1, False)]:
        x = draw(rng, *shape) * (30 if name == "far" else 4)
        classes = shape[axis]
        positions = list(shape)
        del positions[axis]
        t = torch.tensor(rng.integers(0, classes, positions))
        t[torch.tensor(rng.random(positions)) < 0.3] = ignored
        if name == "all_ignored":
            t[:] = ignored
        weights = torch.tensor([0.5 + 0.25 * c for c in range(classes)], dtype=torch.float64)

        def loss(x, t):
            # The sum over what counts, divided by its number, not by the sum of its weights.
            total = F.cross_entropy(x.movedim(axis, 1), t, weights if weighted else None,
                                    ignore_index=ignored, label_smoothing=smoothing,
                                    reduction="sum")
            return total / max(1, int((t != ignored).sum()))

        yield case(name, loss, {"x": x, "t": t}, rng,
                   options={"axis": axis, "ignored": ignored, "smoothing": smoothing,
                            "weights": weights.tolist() if weighted else []})


def sigmoid_cross_entropy(rng):
    for name, shape, scale in [("real", (4, 5), 3), ("real", (2, 1, 30, 40), 3), ("far", (30,), 80)]:
        t = torch.tensor(rng.integers(0, 5, shape) / 4, dtype=torch.float64)
        yield case(name, F.binary_cross_entropy_with_logits, {"input": draw(rng, *shape) * scale,
                                                              "target": t}, rng, ["target"])
    for shape in [(40,), (7, 3)]:
        t = torch.tensor(rng.integers(-1, 2, shape))
        yield case("labels", lambda input, t: F.binary_cross_entropy_with_logits(
            input[t >= 0], t[t >= 0].double()), {"input": draw(rng, *shape), "t": t}, rng)


def huber_loss(rng):
    for delta, shape in [(1.0, (6, 7)), (0.3, (2, 3, 20, 10)), (5.0, (9,))]:
        yield case("huber", lambda x, target: F.huber_loss(x, target, delta=delta),
                   {"x": draw(rng, *shape) * 2, "target": draw(rng, *shape)}, rng, ["target"],
                   options={"delta": delta})


if __name__ == "__main__":
    write([general_cross_entropy, sigmoid_cross_entropy, huber_loss], first_seed=600)
