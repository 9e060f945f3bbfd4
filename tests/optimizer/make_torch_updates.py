#!/usr/bin/env python3
"""Writes torch_updates.json: weights after each of some updates, computed by PyTorch in float64, for
the rules whose formulae PyTorch shares with Chainer, and by timm for LAMB. Run once; the result is
committed.

Where names differ: Chainer's AdamW does not multiply the decay by the learning rate, so its
weight_decay_rate is PyTorch's lr * weight_decay; PyTorch's Adam adds eps after the bias correction,
so eps is chosen too small to matter there.
"""
import json
import pathlib

import timm
import torch
from timm.optim.lamb import Lamb

STEPS, SIZE = 8, 19

CASES = [
    ("sgd", {"lr": 0.05}, 0.0, lambda p: torch.optim.SGD(p, lr=0.05)),
    ("sgd", {"lr": 0.05}, 0.1, lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1)),
    ("momentum_sgd", {"lr": 0.05, "momentum": 0.8}, 0.0,
     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8)),
    ("momentum_sgd", {"lr": 0.05, "momentum": 0.8}, 0.1,
     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, weight_decay=0.1)),
    ("adam", {"alpha": 0.02, "beta1": 0.8, "beta2": 0.95, "eps": 1e-14}, 0.0,
     lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-14)),
    ("adam", {"alpha": 0.02, "eps": 1e-14}, 0.1,
     lambda p: torch.optim.Adam(p, lr=0.02, eps=1e-14, weight_decay=0.1)),
    ("adamw", {"alpha": 0.02, "eps": 1e-14, "weight_decay_rate": 0.02 * 0.1}, 0.0,
     lambda p: torch.optim.AdamW(p, lr=0.02, eps=1e-14, weight_decay=0.1)),
    ("rmsprop", {"lr": 0.02, "alpha": 0.9, "eps": 1e-3}, 0.0,
     lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-3)),
    ("adagrad", {"lr": 0.05, "eps": 1e-3}, 0.0,
     lambda p: torch.optim.Adagrad(p, lr=0.05, eps=1e-3)),
    ("adadelta", {"rho": 0.9, "eps": 1e-3}, 0.0,
     lambda p: torch.optim.Adadelta(p, lr=1.0, rho=0.9, eps=1e-3)),
    ("lamb", {"alpha": 0.02, "eps": 1e-3, "weight_decay_rate": 0.1}, 0.0,
     lambda p: Lamb(p, lr=0.02, eps=1e-3, weight_decay=0.1, max_grad_norm=None)),
    ("lamb", {"alpha": 0.05, "beta1": 0.8, "beta2": 0.95}, 0.0,
     lambda p: Lamb(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0, max_grad_norm=None,
                    always_adapt=True)),
    ("lamb", {"alpha": 0.05, "trust": 0}, 0.0,
     lambda p: Lamb(p, lr=0.05, weight_decay=0, max_grad_norm=None, always_adapt=False)),
]


def main():
    torch.manual_seed(0)
    # Exactly representable in float32, so that both sides start from the same numbers.
    initial = torch.randn(SIZE).double()
    gradients = torch.randn(STEPS, SIZE).double()
    cases = []
    for name, hyperparameters, weight_decay, make in CASES:
        weights = initial.clone().requires_grad_()
        optimizer = make([weights])
        after = []
        for gradient in gradients:
            weights.grad = gradient.clone()
            optimizer.step()
            after.append([round(w, 10) for w in weights.tolist()])
        cases.append({"optimizer": name, "hyperparameters": hyperparameters,
                      "weight_decay": weight_decay, "weights": after})
    out = pathlib.Path(__file__).with_name("torch_updates.json")
    out.write_text(json.dumps({"torch": torch.__version__.split("+")[0],
                               "timm": timm.__version__,
                               "initial": initial.tolist(), "gradients": gradients.tolist(),
                               "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
