#!/usr/bin/env python3
"""What gpu_step is compared with: PyTorch doing the same training steps on the same GPU.

Prints one JSON object: examples a second over at least --seconds, after steps that compile and
choose algorithms.
"""
import argparse
import json
import pathlib
import sys
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", choices=["mlp", "lenet", "cnn10", "wrn_28_10"])
parser.add_argument("batch", type=int)
parser.add_argument("precision", choices=["fp32", "tf32", "bf16", "fp16"])
parser.add_argument("--mode", required=True, choices=["eager", "compile", "graph"],
                    help="compile: torch.compile(mode=reduce-overhead); graph: the whole step as "
                         "one CUDA graph")
parser.add_argument("--channels-last", action="store_true",
                    help="images and filters lie channels last")
parser.add_argument("--seconds", type=float, default=3)
options = parser.parse_args()

import torch
import torch.nn.functional as F

here = pathlib.Path(__file__).resolve().parent
sys.path += [str(here), str(here.parent)]  # a bundle has all scripts in one folder
import peer_models


def main():
    if not torch.cuda.is_available():
        raise SystemExit("peer_gpu_step.py: PyTorch sees no GPU")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    tf32 = options.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
    image = peer_models.image_shape(options.model)
    model = getattr(peer_models, options.model)()
    order = torch.channels_last if options.channels_last else torch.contiguous_format
    model = model.cuda().to(memory_format=order)
    x = torch.rand(options.batch, *image, device="cuda")
    x = x.to(memory_format=order) if len(image) == 3 else x
    t = torch.arange(options.batch, device="cuda") % 10
    if options.model == "mlp":
        optimizer = torch.optim.Adam(model.parameters(), fused=True,
                                     capturable=options.mode == "graph")
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    forward = torch.compile(model, mode="reduce-overhead") if options.mode == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        # Within a graph autocast may not keep converted weights from step to step.
        with torch.autocast("cuda", half or torch.float16, enabled=half is not None,
                            cache_enabled=options.mode != "graph"):
            loss = F.cross_entropy(forward(x), t)
        loss.backward()
        optimizer.step()

    if options.mode == "graph":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    else:
        run = step

    def seconds_of(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    seconds_of(10)
    steps = int(options.seconds / (seconds_of(10) / 10)) + 10
    seconds = seconds_of(steps)
    print(json.dumps({"model": options.model, "batch": options.batch,
                      "precision": options.precision, "mode": options.mode,
                      "channels_last": options.channels_last, "steps": steps,
                      "examples_per_second": steps * options.batch / seconds,
                      "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}))


main()
