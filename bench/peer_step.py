#!/usr/bin/env python3
"""What model_step is compared with: PyTorch doing one training step of the same network.

With --ranks 2 two processes exchange gradients by DistributedDataParallel over gloo. Rank 0 prints one
JSON object: seconds of every step after two that warm up, as processor time with one rank of one
thread, else as the wall clock's. Works with PyTorch 1.13 and later.
"""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", choices=["lenet", "cnn10", "vgg16_bn", "wrn_28_10", "resnet20"])
parser.add_argument("batch", type=int, help="images of each rank")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
parser.add_argument("--compile", action="store_true", help="torch.compile")
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before PyTorch starts its threads

import torch
import torch.nn.functional as F

import peer_models
import peer_ranks


def work(rank):
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    order = torch.channels_last if options.channels_last else torch.contiguous_format
    image = peer_models.image_shape(options.model)
    model = getattr(peer_models, options.model)().to(memory_format=order)
    # Statistics stay each rank's own.
    model = peer_ranks.exchanging(model, broadcast_buffers=False)
    forward = torch.compile(model) if options.compile else model
    x = torch.rand(options.batch, *image).to(memory_format=order)
    t = torch.arange(options.batch) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    # Of the process, as the backward pass runs in a thread of PyTorch's own.
    is_alone = options.ranks == 1 and options.threads == 1
    clock = time.process_time if is_alone else time.perf_counter
    seconds = []
    for step in range(-2, options.steps):
        peer_ranks.barrier()
        start = clock()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = F.cross_entropy(forward(x), t)
        loss.backward()
        optimizer.step()
        peer_ranks.barrier()
        if step >= 0:
            seconds.append(clock() - start)
    if rank == 0:
        print(json.dumps({"model": options.model, "batch": options.batch, "ranks": options.ranks,
                          "threads": options.threads, "torch": torch.__version__,
                          "channels_last": options.channels_last, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    peer_ranks.run(work, options.ranks)
