#!/usr/bin/env python3
"""What lstm_step is compared with: PyTorch's nn.LSTM, forward and backward on the same sizes.

With --ranks 2 two processes exchange gradients by DistributedDataParallel over gloo, and a step has an
update by SGD, too. Rank 0 prints one JSON object: seconds of every step after two that warm up, as
processor time with one rank of one thread, else as the wall clock's. Ragged sequences are packed.
"""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=10)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--units", type=int, default=512)
parser.add_argument("--batch", type=int, default=64, help="sequences of each rank")
parser.add_argument("--length", type=int, default=32)
parser.add_argument("--ragged", action="store_true")
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
parser.add_argument("--compile", action="store_true", help="torch.compile")
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before PyTorch starts its threads

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import peer_ranks


def work(rank):
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    model = torch.nn.LSTM(options.units, options.units, options.layers, batch_first=True)
    model = peer_ranks.exchanging(model)
    forward = torch.compile(model) if options.compile else model
    shape = options.batch, options.length, options.units
    x = torch.rand(shape, requires_grad=True)
    upstream = torch.rand(shape)
    lengths = torch.tensor([options.length - i % (options.length // 2 + 1)
                            for i in range(options.batch)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6) if options.ranks > 1 else None
    # Of the process, as the backward pass runs in a thread of PyTorch's own.
    is_alone = options.ranks == 1 and options.threads == 1
    clock = time.process_time if is_alone else time.perf_counter
    seconds = []
    for step in range(-2, options.rounds):
        peer_ranks.barrier()
        start = clock()
        model.zero_grad()
        x.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            if options.ragged:
                packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                y, _ = pad_packed_sequence(forward(packed)[0], batch_first=True,
                                           total_length=options.length)
            else:
                y, _ = forward(x)
        y.backward(upstream.to(y.dtype))
        if optimizer:
            optimizer.step()
        peer_ranks.barrier()
        if step >= 0:
            seconds.append(clock() - start)
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    peer_ranks.run(work, options.ranks)
