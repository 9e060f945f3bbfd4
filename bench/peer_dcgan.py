#!/usr/bin/env python3
"""What dcgan_step is compared with: PyTorch doing the same training step of the same two networks.

With --ranks 2 two processes of one thread each exchange gradients by DistributedDataParallel over gloo.
Rank 0 prints one JSON object: every step's seconds by the wall clock, or with
TASUKI_BENCH_CLOCK=processor those of its processor time, after two that warm up.
"""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("batch", type=int, help="images of each rank")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--channels", type=int, default=512)
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
parser.add_argument("--compile", action="store_true", help="torch.compile")
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch starts its threads

import torch
import torch.nn.functional as F

import peer_models
import peer_ranks


def work(rank):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(rank)
    order = torch.channels_last if options.channels_last else torch.contiguous_format
    gen = peer_models.dcgan_generator(options.channels)
    dis = peer_models.dcgan_discriminator(options.channels)
    gen, dis = gen.to(memory_format=order), dis.to(memory_format=order)
    # Statistics stay each rank's own; the discriminator has two forward passes in a step.
    gen, dis = (peer_ranks.exchanging(model, broadcast_buffers=False) for model in (gen, dis))
    of_gen, of_dis = list(gen.parameters()), list(dis.parameters())
    adam = [torch.optim.Adam(model.parameters(), 2e-4, (0.5, 0.999), weight_decay=1e-4)
            for model in (gen, dis)]
    if options.compile:
        # Two backward passes use the discriminator's graph, which compiled code must then keep.
        if hasattr(torch._functorch.config, "donated_buffer"):
            torch._functorch.config.donated_buffer = False
        gen, dis = torch.compile(gen), torch.compile(dis)
    real = torch.rand(options.batch, 3, 32, 32).to(memory_format=order)
    ones, zeros = torch.ones(options.batch, 1), torch.zeros(options.batch, 1)
    entropy = F.binary_cross_entropy_with_logits
    is_processors = os.environ.get("TASUKI_BENCH_CLOCK") == "processor"
    now = time.process_time if is_processors else time.perf_counter
    seconds = []
    for step in range(-2, options.steps):
        peer_ranks.barrier()
        start = now()
        for optimizer in adam:
            optimizer.zero_grad()
        # As ChainerMN's updater: real and generated images are two batches, each seen once.
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            real_scores = dis(real).float()
            fake_scores = dis(gen(2 * torch.rand(options.batch, 100) - 1)).float()
        # Gradients of the other network's parameters are not computed.
        (entropy(real_scores, ones) + entropy(fake_scores, zeros)).backward(
            inputs=of_dis, retain_graph=True)
        entropy(fake_scores, ones).backward(inputs=of_gen)
        for optimizer in adam:
            optimizer.step()
        peer_ranks.barrier()
        if step >= 0:
            seconds.append(now() - start)
    if rank == 0:
        print(json.dumps({"batch": options.batch, "ranks": options.ranks,
                          "torch": torch.__version__, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    peer_ranks.run(work, options.ranks)
