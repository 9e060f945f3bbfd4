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

import peer_models

parser = argparse.ArgumentParser()
for name, value in [("layers", 4), ("heads", 4), ("width", 256), ("context", 128), ("batch", 16),
                    ("steps", 20), ("bytes", 4_000_000)]:
    parser.add_argument(f"--{name}", type=int, default=value)
parser.add_argument("--data", required=True)
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
parser.add_argument("--compile", action="store_true", help="torch.compile")
o = parser.parse_args()


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
    model = nn.parallel.DistributedDataParallel(
        peer_models.Gpt(o.layers, o.heads, o.width, o.context))
    forward = torch.compile(model) if o.compile else model
    matrices = [w for w in model.parameters() if w.dim() > 1]
    vectors = [w for w in model.parameters() if w.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": vectors, "weight_decay": 0.0}], lr=1e-3, fused=True)
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
        with torch.autocast("cpu", torch.bfloat16, enabled=o.bf16):
            loss = F.cross_entropy(forward(x).flatten(0, 1), t.flatten())
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
