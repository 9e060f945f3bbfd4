#!/usr/bin/env python3
"""Computes what tests/nn/sequence_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_sequence_references.py
"""

import torch

from reference_cases import case, draw, write


def embed_id(rng):
    for rows, columns, shape, ignore in [(6, 5, (9,), None), (50, 33, (4, 7), None),
                                         (4, 16, (3, 2, 5), -1), (7, 3, (11,), 2)]:
        ids = torch.tensor(rng.integers(0, rows, shape))
        if ignore is not None:
            ids[rng.random(shape) < 0.3] = ignore

        def function(t, w):
            y = w[t.clamp(min=0)]
            return y if ignore is None else torch.where((t == ignore)[..., None], 0.0, y)

        yield case("embed_id", function, {"t": ids, "w": draw(rng, rows, columns)}, rng,
                   options={} if ignore is None else {"ignore": ignore})


def recurrent(rng, name, gates):
    """One layer: PyTorch's, whose matrices hold those of the gates one below the other."""
    states = 2 if name == "lstm" else 1
    kind = torch.nn.LSTM if name == "lstm" else torch.nn.GRU
    for lengths, steps, inputs, units, with_states, is_reversed in [
            ((1,), 1, 1, 1, False, False), ((4, 4, 4), 4, 3, 5, False, False),
            ((2, 5, 1, 3), 5, 4, 7, True, False), ((3, 1, 4), 6, 5, 3, True, True),
            ((2,) * 17 + (3,) * 3, 3, 2, 4, False, True)]:
        t = torch.tensor(lengths)
        n = len(lengths)
        tensors = {"t": t, "x": draw(rng, n, steps, inputs)}
        if with_states:
            tensors["states"] = draw(rng, n, states, units)
        for i in range(2 * gates):
            tensors[f"w{i}"] = draw(rng, units, inputs if i < gates else units)
            tensors[f"b{i}"] = draw(rng, units)

        def function(t, x, states=None, **parameters):
            stack = lambda letter, first: torch.cat(
                [parameters[f"{letter}{first + i}"] for i in range(gates)])
            layer = kind(inputs, units, batch_first=True).double()
            values = {"weight_ih_l0": stack("w", 0), "weight_hh_l0": stack("w", gates),
                      "bias_ih_l0": stack("b", 0), "bias_hh_l0": stack("b", gates)}
            rows = torch.arange(steps)[None]
            # Reversed within the lengths; where padding is does not matter.
            order = torch.where(rows < t[:, None], t[:, None] - 1 - rows, rows)[..., None]
            if is_reversed:
                x = x.gather(1, order.expand_as(x))
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, t, batch_first=True,
                                                             enforce_sorted=False)
            first = () if states is None else (
                tuple(s[None].contiguous() for s in states.unbind(1)) if name == "lstm"
                else states.transpose(0, 1).contiguous(),)
            y, last = torch.func.functional_call(layer, values, (packed, *first))
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=steps)
            if is_reversed:
                y = y.gather(1, order.expand_as(y))
            last = last if name == "lstm" else (last,)
            return torch.cat([y] + [s.transpose(0, 1) for s in last], 1)

        yield case(name, function, tensors, rng,
                   options={"reversed": True} if is_reversed else {})


def lstm(rng):
    yield from recurrent(rng, "lstm", 4)


def gru(rng):
    yield from recurrent(rng, "gru", 3)


if __name__ == "__main__":
    write([embed_id, lstm, gru], first_seed=500)
