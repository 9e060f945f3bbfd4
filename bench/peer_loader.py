#!/usr/bin/env python3
"""Images a second of PyTorch's DataLoader with torchvision, for compare_loader.py:
   peer_loader.py FOLDER WORKERS SECONDS. Batches of 64 random-resized crops of 224 x 224 pixels."""
import sys
import time

import torch
from torchvision import datasets, transforms


def main(folder, workers, limit):
    torch.set_num_threads(1)
    crops = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])
    data = datasets.ImageFolder(folder, crops)
    # Endless, as the workers start anew in each epoch otherwise.
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=10**7)
    loader = torch.utils.data.DataLoader(data, 64, sampler=sampler, num_workers=workers)
    batches = iter(loader)
    for _ in range(2 * max(1, workers)):
        next(batches)
    start, images, seconds = time.perf_counter(), 0, 0
    while seconds < limit:
        images += len(next(batches)[0])
        seconds = time.perf_counter() - start
    print(f"{images / seconds:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
