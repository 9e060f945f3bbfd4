#!/usr/bin/env python3
"""Writes torch_ema.json: weights after each of some steps, and their average by PyTorch
(torch.optim.swa_utils). Run once; the result is committed."""
import json
import pathlib

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

DECAY, STEPS, SIZE = 0.9, 8, 20

torch.manual_seed(0)
model = torch.nn.Linear(SIZE, 1, bias=False).double()
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
weights, averages = [], []
for _ in range(STEPS):
    with torch.no_grad():
        model.weight.copy_(torch.randn(1, SIZE, dtype=torch.float32).double())
    average.update_parameters(model)
    weights.append(model.weight.flatten().tolist())
    averages.append(average.module.weight.detach().flatten().tolist())
path = pathlib.Path(__file__).with_name("torch_ema.json")
path.write_text(json.dumps({"decay": DECAY, "weights": weights, "averages": averages}) + "\n")
