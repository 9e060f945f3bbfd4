"""What the scripts make_*references.py share: values and gradients in float64, by PyTorch."""

import json
import pathlib

import numpy as np
import torch

FOLDER = pathlib.Path(__file__).parent / "references"


def draw(rng, *shape):
    """Normal values with three decimals, so that text holds them exactly."""
    return torch.tensor(np.round(rng.standard_normal(shape), 3), dtype=torch.float64)


def pack(tensor):
    values = tensor.detach().reshape(-1).tolist()
    digits = "%d" if not tensor.dtype.is_floating_point else "%.7g"
    return {"shape": list(tensor.shape), "values": [json.loads(digits % v) for v in values]}


def case(name, function, inputs, rng, constants=(), options=None):
    """Runs `function(**inputs)` forward and backward; `constants` get no gradient."""
    for key, value in inputs.items():
        value.requires_grad_(value.dtype.is_floating_point and key not in constants)
    result = function(**inputs)
    upstream = draw(rng, *result.shape)
    (result * upstream).sum().backward()
    return {
        "name": name,
        "options": options or {},
        "inputs": {k: pack(v) for k, v in inputs.items()},
        "result": pack(result),
        "upstream": pack(upstream),
        "gradients": {k: pack(v.grad) for k, v in inputs.items() if v.grad is not None},
    }


def distinct(rng, *shape):
    """Values without ties, which a maximum could break either way."""
    count = int(np.prod(shape))
    return torch.tensor(rng.permutation(count).reshape(shape) / 10 - 3, dtype=torch.float64)


def write(functions, first_seed):
    """Writes references/<name>.json for each of these functions, which yield cases."""
    FOLDER.mkdir(exist_ok=True)
    for number, function in enumerate(functions):
        cases = list(function(np.random.default_rng(first_seed + number)))
        lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        (FOLDER / f"{function.__name__}.json").write_text(f"[\n{lines}\n]\n")
