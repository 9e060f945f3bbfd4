#!/usr/bin/env python3
"""Writes chainer_updates.json: for each optimizer, as flags of a training program, what Chainer
computes in float64 for the same settings: the weights after each of some updates, and the learning
rate that its observe_lr reports then (none for AdaDelta). Run once, with Chainer 7.8.1 and NumPy
1.23; the result is committed.
"""
import json
import pathlib

import chainer
import numpy as np
from chainer import optimizers
from chainer.optimizer_hooks import WeightDecay

STEPS, SIZE, DECAY = 8, 7, 0.1

CASES = [
    ("sgd", 0.05, lambda: optimizers.SGD(lr=0.05)),
    ("momentum_sgd", 0.05, lambda: optimizers.MomentumSGD(lr=0.05)),
    ("nesterov", 0.05, lambda: optimizers.NesterovAG(lr=0.05)),
    ("adam", 0.02, lambda: optimizers.Adam(alpha=0.02)),
    # Its decay is a setting of the rule, not a hook.
    ("adamw", 0.02, lambda: optimizers.AdamW(alpha=0.02, weight_decay_rate=DECAY)),
    ("rmsprop", 0.02, lambda: optimizers.RMSprop(lr=0.02)),
    ("adagrad", 0.05, lambda: optimizers.AdaGrad(lr=0.05)),
    ("adadelta", None, optimizers.AdaDelta),
]


def rate_of(optimizer):
    if isinstance(optimizer, optimizers.Adam):
        return optimizer.alpha_t  # what its deprecated name, lr, stands for
    return getattr(optimizer, "lr", None)


def main():
    random = np.random.RandomState(0)
    # Exactly representable in float32, so that both sides start from the same numbers.
    initial = random.randn(SIZE).astype(np.float32)
    gradients = random.randn(STEPS, SIZE).astype(np.float32)
    cases = []
    for name, rate, make in CASES:
        link = chainer.Link()
        with link.init_scope():
            link.W = chainer.Parameter(initial.astype(np.float64))
        optimizer = make().setup(link)
        if name != "adamw":
            optimizer.add_hook(WeightDecay(DECAY))
        weights, rates = [], []
        for gradient in gradients:
            link.W.grad = gradient.astype(np.float64)
            optimizer.update()
            weights.append([round(float(w), 10) for w in link.W.array])
            rates.append(rate_of(optimizer))
        flags = ["--optimizer", name, "--weight-decay", str(DECAY)]
        if rate is not None:
            flags += ["--lr", str(rate)]
        cases.append({"flags": flags, "weights": weights, "rates": rates})
    out = pathlib.Path(__file__).with_name("chainer_updates.json")
    out.write_text(json.dumps({"chainer": chainer.__version__, "initial": initial.tolist(),
                               "gradients": gradients.tolist(), "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
