#!/usr/bin/env python3
"""What train_mnist is compared with: PyTorch training the same network on the same data.

MLP 784-1000-1000-10, Adam with its defaults, batch 100 a process, tensors in memory, one thread a
process; with --ranks N, DistributedDataParallel over gloo. Prints one JSON object per epoch: seconds
of training and of evaluating the test images, loss and accuracy. Works with PyTorch 1.13 and later.
"""
import argparse
import functools
import gzip
import json
import os
import pathlib
import struct
import time

os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch starts its threads

import torch
import torch.distributed as dist
import torch.nn.functional as F

import peer_ranks


def read_idx(folder, name):
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            axes = data[3]
            shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
            return torch.frombuffer(bytearray(data[4 + 4 * axes:]), dtype=torch.uint8).view(shape)
    raise SystemExit(f"peer_mlp.py: no {name} or {name}.gz in {folder}")


def load(folder, part):
    images = read_idx(folder, f"{part}-images-idx3-ubyte").view(-1, 784).float() / 255
    return images, read_idx(folder, f"{part}-labels-idx1-ubyte").long()


def evaluate(model, images, labels, batch):
    model.eval()
    correct, loss = 0, 0.0
    with torch.inference_mode():
        for begin in range(0, len(images), batch):
            scores, target = model(images[begin:begin + batch]), labels[begin:begin + batch]
            loss += F.cross_entropy(scores, target, reduction="sum").item()
            correct += (scores.argmax(1) == target).sum().item()
    model.train()
    return torch.tensor([correct, loss, len(images)], dtype=torch.float64)


def train(rank, options):
    torch.set_num_threads(1)
    # Not PyTorch's default, but Adam's moments of dead pixels become subnormal within an epoch, and
    # some processors then take several times as long.
    torch.set_flush_denormal(not options.keep_denormals)
    torch.manual_seed(options.seed)
    # Each process keeps its share of both sets.
    images, labels = (data[rank::options.ranks] for data in load(options.data, "train"))
    test_images, test_labels = (data[rank::options.ranks] for data in load(options.data, "t10k"))
    images, labels = images.contiguous(), labels.contiguous()

    model = torch.nn.Sequential(
        torch.nn.Linear(784, 1000), torch.nn.ReLU(), torch.nn.Linear(1000, 1000), torch.nn.ReLU(),
        torch.nn.Linear(1000, 10))
    local = model
    model = peer_ranks.exchanging(model)
    forward = torch.compile(model) if options.compile else model
    fused = {"fused": True} if options.adam == "fused" else {}
    optimizer = torch.optim.Adam(model.parameters(), **fused)

    for epoch in range(1, options.epochs + 1):
        peer_ranks.barrier()
        start = time.perf_counter()
        total = torch.zeros(())
        order = torch.randperm(len(images))
        for begin in range(0, len(images), options.batch):
            chosen = order[begin:begin + options.batch]
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
                loss = F.cross_entropy(forward(images[chosen]), labels[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        trained = time.perf_counter()
        # Batch normalisation and dropout are not there: the local module gives DDP's values.
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            sums = evaluate(local, test_images, test_labels, options.eval_batch)
        if options.ranks > 1:
            dist.all_reduce(sums)
        done = time.perf_counter()
        if rank == 0:
            correct, test_loss, count = sums.tolist()
            print(json.dumps({
                "epoch": epoch, "seconds": done - start, "training": trained - start,
                "evaluation": done - trained,
                "loss": total.item() / -(-len(images) // options.batch),
                "validation_loss": test_loss / count, "validation_accuracy": correct / count,
                "torch": torch.__version__}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path,
                        default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--eval-batch", type=int, default=100)
    parser.add_argument("--adam", choices=["default", "fused"], default="default",
                        help="fused: one native loop, PyTorch 2.4 and later")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--keep-denormals", action="store_true", help="PyTorch's default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    peer_ranks.run(functools.partial(train, options=options), options.ranks)


if __name__ == "__main__":
    main()
