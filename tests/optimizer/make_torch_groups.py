#!/usr/bin/env python3
"""Writes torch_groups.json: weights after each of some updates with parameter groups, computed by
PyTorch in float64. Run once; the result is committed.

Each case gives the groups as Tasuki has them and the settings that they make for each parameter as
PyTorch has them. Where names differ, see make_torch_updates.py.
"""
import json
import pathlib

import torch

STEPS = 6
SHAPES = {"l1/W": (5, 7), "l1/b": (5,), "bn/gamma": (5,), "l2/W": (3, 5), "l2/b": (3,)}

CASES = [
    # Own rates, by a factor and by value; the last group that matches and has a setting counts.
    {"optimizer": "sgd", "hyperparameters": {"lr": 0.05}, "weight_decay": 0.0,
     "groups": [{"pattern": "l1/*", "rate_factor": 0.1}, {"pattern": "**/W", "rate_factor": 3},
                {"pattern": "l2/b", "values": {"lr": 0.5}}],
     "make": lambda groups: torch.optim.SGD(groups, lr=0.05),
     "torch": {"l1/W": {"lr": 0.15}, "l1/b": {"lr": 0.005}, "l2/W": {"lr": 0.15},
               "l2/b": {"lr": 0.5}}},
    # No decay of parameters with one axis.
    {"optimizer": "momentum_sgd", "hyperparameters": {"lr": 0.05, "momentum": 0.8},
     "weight_decay": 0.1,
     "groups": [{"pattern": "**", "weight_decay": 0, "is_1d_only": True}],
     "make": lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.8, weight_decay=0.1),
     "torch": {"l1/b": {"weight_decay": 0}, "bn/gamma": {"weight_decay": 0},
               "l2/b": {"weight_decay": 0}}},
    # Decay of some parameters alone, other momentum.
    {"optimizer": "momentum_sgd", "hyperparameters": {"lr": 0.05, "momentum": 0.8},
     "weight_decay": 0.0,
     "groups": [{"pattern": "l2/**", "weight_decay": 0.3, "values": {"momentum": 0.5}}],
     "make": lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.8),
     "torch": {path: {"weight_decay": 0.3, "momentum": 0.5} for path in ("l2/W", "l2/b")}},
    {"optimizer": "adam", "hyperparameters": {"alpha": 0.02, "eps": 1e-14}, "weight_decay": 0.1,
     "groups": [{"pattern": "bn/*", "rate_factor": 0.5, "weight_decay": 0.02,
                 "values": {"beta2": 0.9}}],
     "make": lambda groups: torch.optim.Adam(groups, lr=0.02, eps=1e-14, weight_decay=0.1),
     "torch": {"bn/gamma": {"lr": 0.01, "weight_decay": 0.02, "betas": (0.9, 0.9)}}},
    # Settings of two groups for one parameter. AdamW's decay is not multiplied by the rate in
    # Chainer.
    {"optimizer": "adamw",
     "hyperparameters": {"alpha": 0.02, "eps": 1e-14, "weight_decay_rate": 0.002},
     "weight_decay": 0.0,
     "groups": [{"pattern": "l1/**", "rate_factor": 0.25},
                {"pattern": "**", "weight_decay": 0, "is_1d_only": True}],
     "make": lambda groups: torch.optim.AdamW(groups, lr=0.02, eps=1e-14, weight_decay=0.1),
     "torch": {"l1/W": {"lr": 0.005, "weight_decay": 0.4}, "l1/b": {"lr": 0.005, "weight_decay": 0},
               "bn/gamma": {"weight_decay": 0}, "l2/b": {"weight_decay": 0}}},
    {"optimizer": "rmsprop", "hyperparameters": {"lr": 0.02, "alpha": 0.9, "eps": 1e-3},
     "weight_decay": 0.0, "groups": [{"pattern": "l2/W", "values": {"alpha": 0.5, "eps": 0.1}}],
     "make": lambda groups: torch.optim.RMSprop(groups, lr=0.02, alpha=0.9, eps=1e-3),
     "torch": {"l2/W": {"alpha": 0.5, "eps": 0.1}}},
]


def main():
    torch.manual_seed(0)
    # Exactly representable in float32, so that both sides start from the same numbers.
    initial = {path: torch.randn(shape).double() for path, shape in SHAPES.items()}
    gradients = [{path: torch.randn(shape).double() for path, shape in SHAPES.items()}
                 for _ in range(STEPS)]
    cases = []
    for case in CASES:
        weights = {path: value.clone().requires_grad_() for path, value in initial.items()}
        optimizer = case["make"]([{"params": [weights[path]], **case["torch"].get(path, {})}
                                  for path in SHAPES])
        after = []
        for of_step in gradients:
            for path, gradient in of_step.items():
                weights[path].grad = gradient.clone()
            optimizer.step()
            after.append({path: [round(w, 10) for w in value.flatten().tolist()]
                          for path, value in weights.items()})
        cases.append({key: case[key]
                      for key in ("optimizer", "hyperparameters", "weight_decay", "groups")}
                     | {"weights": after})
    flat = lambda values: {path: value.flatten().tolist() for path, value in values.items()}
    out = pathlib.Path(__file__).with_name("torch_groups.json")
    out.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "shapes": SHAPES,
                               "initial": flat(initial),
                               "gradients": [flat(of_step) for of_step in gradients],
                               "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
