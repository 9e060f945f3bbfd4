#!/usr/bin/env python3
"""What compare_nodes.py compares with: PyTorch's DistributedDataParallel over gloo, one process a
rank under mpirun.

Trains on random images. Rank 0 prints one JSON object: seconds of every timed step, which end when
its own update has.
"""
import argparse
import json
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch starts its threads

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import peer_models


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["mlp", "lenet", "cnn10", "wrn_28_10"])
    parser.add_argument("batch", type=int, help="examples per rank")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--master", default="10.231.7.1",
                        help="address of rank 0 (default: of the first node of tests/cluster/run.sh)")
    parser.add_argument("--fp16", action="store_true", help="gradients travel as float16")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    options = parser.parse_args()

    rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    os.environ.update(MASTER_ADDR=options.master, MASTER_PORT="29411", GLOO_SOCKET_IFNAME="eth0")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    shape = (784,) if options.model == "mlp" else peer_models.image_shape(options.model)
    model = torch.nn.parallel.DistributedDataParallel(getattr(peer_models, options.model)(),
                                                      gradient_as_bucket_view=True)
    if options.fp16:
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    forward = torch.compile(model) if options.compile else model
    optimizer = (torch.optim.Adam(model.parameters()) if options.model == "mlp" else
                 torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
    x, t = torch.rand(options.batch, *shape), torch.arange(options.batch) % 10
    seconds = []
    for step in range(-options.warmup, options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = F.cross_entropy(forward(x), t)
        loss.backward()
        optimizer.step()
        if step >= 0:
            seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(seconds), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
