#!/usr/bin/env python3
"""Computes what tests/nn/attention_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_attention_references.py
"""

import torch
import torch.nn.functional as F

from reference_cases import case, draw, write


def heads_of(x, heads):
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def attend(q, k, v, heads, causal, lengths):
    """Queries without keys have the result 0."""
    q, k, v = (heads_of(x, heads) for x in (q, k, v))
    n, _, queries, _ = q.shape
    keys = k.shape[2]
    seen = torch.ones(n, 1, queries, keys, dtype=torch.bool)
    if causal:
        seen = seen.tril()
    for item, length in enumerate(lengths or []):
        seen[item, :, :, length:] = False
        if causal:
            seen[item, :, length:] = False
    has_keys = seen.any(dim=3, keepdim=True)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen | ~has_keys)
    return (y * has_keys).transpose(1, 2).flatten(2)


def attention(rng):
    for n, queries, keys, heads, width, lengths in [(2, 3, 5, 2, 4, None), (1, 4, 4, 1, 3, None),
                                                    (3, 2, 7, 2, 8, [7, 3, 0])]:
        yield case("attention", lambda q, k, v: attend(q, k, v, heads, False, lengths),
                   {"q": draw(rng, n, queries, heads * width), "k": draw(rng, n, keys, heads * width),
                    "v": draw(rng, n, keys, heads * width)}, rng,
                   options={"heads": heads, "causal": False, "lengths": lengths or []})


def self_attention(rng):
    for n, rows, heads, width, causal, lengths in [(2, 5, 2, 4, True, None), (2, 5, 2, 4, False, None),
                                                   (2, 9, 3, 5, True, [4, 9]),
                                                   (1, 150, 1, 2, True, None),
                                                   (1, 300, 1, 1, True, None)]:
        yield case("self_attention",
                   lambda qkv: attend(*qkv.chunk(3, dim=2), heads, causal, lengths),
                   {"qkv": draw(rng, n, rows, 3 * heads * width)}, rng,
                   options={"heads": heads, "causal": causal, "lengths": lengths or []})


if __name__ == "__main__":
    write([attention, self_attention], first_seed=800)
