#!/usr/bin/env python3
"""What compare_lm.py compares train_lm with: the same transformer in PyTorch, on the same windows.

Run by torchrun-like variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). Rank 0 prints one JSON
object: seconds of each step after the first two, and mean bits per byte of the last ten.
"""
import argparse
import gzip
import json
import math
import random
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
for name, value in [("layers", 4), ("heads", 4), ("width", 256), ("context", 128), ("batch", 16),
                    ("steps", 20), ("bytes", 4_000_000)]:
    parser.add_argument(f"--{name}", type=int, default=value)
parser.add_argument("--data", required=True)
o = parser.parse_args()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(o.width), nn.LayerNorm(o.width)
        self.qkv, self.attention = nn.Linear(o.width, 3 * o.width), nn.Linear(o.width, o.width)
        self.hidden, self.output = nn.Linear(o.width, 4 * o.width), nn.Linear(4 * o.width, o.width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (o.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention(seen.transpose(1, 2).flatten(2))
        return x + self.output(F.gelu(self.hidden(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(256, o.width), nn.Embedding(o.context, o.width)
        self.blocks = nn.Sequential(*[Block() for _ in range(o.layers)])
        self.norm, self.scores = nn.LayerNorm(o.width), nn.Linear(o.width, 256, bias=False)
        for name, w in self.named_parameters():
            if w.dim() == 2:
                last = name.endswith(("attention.weight", "output.weight"))
                nn.init.normal_(w, std=0.02 / math.sqrt(2 * o.layers) if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(w)

    def forward(self, x):
        return self.scores(self.norm(self.blocks(self.embed(x) + self.position.weight)))


def main():
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    packed = open(o.data, "rb").read(2) == b"\x1f\x8b"
    text = torch.frombuffer(bytearray((gzip.open if packed else open)(o.data, "rb").read(o.bytes)),
                            dtype=torch.uint8).long()
    windows = (len(text) - 1) // o.context
    block = min(256, windows // 10)
    order = [i for i in range(windows) if i // block % 10 != 9]
    random.Random(1).shuffle(order)
    model = nn.parallel.DistributedDataParallel(Gpt())
    matrices = [w for w in model.parameters() if w.dim() > 1]
    vectors = [w for w in model.parameters() if w.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": vectors, "weight_decay": 0.0}], lr=1e-3)
    epoch = math.ceil(len(order) / (o.batch * ranks))
    seconds, bits = [], []
    for step in range(o.steps):
        start = time.perf_counter()
        # Warm-up over 5 % of an epoch and a cosine over all of it, as train_lm's.
        rate = 1e-3 * min(1, (step + 1) / (0.05 * epoch)) * (1 + math.cos(math.pi * step / epoch)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        at = [order[(step * ranks * o.batch + rank * o.batch + i) % len(order)] * o.context
              for i in range(o.batch)]
        x = torch.stack([text[i:i + o.context] for i in at])
        t = torch.stack([text[i + 1:i + o.context + 1] for i in at])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), t.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        bits.append(loss.detach() / math.log(2))
        if step >= 2:
            seconds.append(time.perf_counter() - start)
    last = torch.stack(bits[-10:]).mean()
    dist.all_reduce(last)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "bits_per_byte": last.item() / ranks}))
    dist.destroy_process_group()


main()
