#!/usr/bin/env python3
"""What gpu_step is compared with: PyTorch doing the same training steps on the same GPU.

Prints one JSON object: examples a second over at least --seconds, after steps that compile and
choose algorithms.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", choices=["mlp", "lenet", "cnn10", "vgg_small", "wrn_28_10", "gpt",
                                      "gpt2_small", "lstm", "dcgan"])
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

chosen = {}  # by what was measured first


def train(parts, losses):
    """A step, and the workload's networks: each of `parts` (a network, what makes its optimizer)
    learns from its own of the losses that losses(networks) returns."""
    compiled = options.mode == "compile"
    networks = [network for network, _ in parts]
    optimizers = [create(network.parameters()) for network, create in parts]
    forwards = [torch.compile(network, mode="reduce-overhead") if compiled else network
                for network in networks]
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)

    def step():
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        # Within a graph autocast may not keep converted weights from step to step.
        with torch.autocast("cuda", half or torch.float16, enabled=half is not None,
                            cache_enabled=options.mode != "graph"):
            found = losses(*forwards)
        if len(networks) == 1:
            found[0].backward()
        else:  # gradients of the other networks' parameters are not computed
            for i, (network, loss) in enumerate(zip(networks, found)):
                loss.backward(inputs=list(network.parameters()), retain_graph=i + 1 < len(networks))
        for optimizer in optimizers:
            optimizer.step()

    return step


def adam(kind=torch.optim.Adam, **settings):
    return lambda parameters: kind(parameters, fused=True, capturable=options.mode == "graph", **settings)


def vgg_small():
    layers, channels = [], 3
    for count, width in ((2, 64), (2, 128), (3, 256)):
        for _ in range(count):
            layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU()]
            channels = width
        layers.append(torch.nn.MaxPool2d(2))
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(16 * channels, 1024),
                               torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(1024, 10))


def image_step():
    image = peer_models.image_shape(options.model)
    order = torch.channels_last if options.channels_last else torch.contiguous_format
    create = vgg_small if options.model == "vgg_small" else getattr(peer_models, options.model)
    model = create().cuda().to(memory_format=order)
    x = torch.rand(options.batch, *image, device="cuda")
    x = x.to(memory_format=order) if len(image) == 3 else x
    t = torch.arange(options.batch, device="cuda") % 10
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)
    return train([(model, adam() if options.model == "mlp" else sgd)],
                 lambda model: [F.cross_entropy(model(x), t)])


def fastest_attention(heads, context, head_width):
    """The backend of scaled_dot_product_attention that is fastest forward and backward; None for float32,
    where PyTorch chooses."""
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
    if half is None:
        return None
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def seconds_of(backend):
        q, k, v = (torch.rand(options.batch, heads, context, head_width, device="cuda", dtype=half,
                              requires_grad=True) for _ in range(3))
        with sdpa_kernel([backend]):
            for turn in range(25):
                if turn == 5:
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(q.detach())
        torch.cuda.synchronize()
        return time.perf_counter() - start

    times = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            times[backend] = seconds_of(backend)
        except RuntimeError:
            pass  # it does not support this
    return min(times, key=times.get, default=None)


def text_step(**sizes):
    model = peer_models.Gpt(**sizes).cuda()
    context, symbols = model.position.num_embeddings, model.embed.num_embeddings
    heads = model.blocks[0].heads
    chosen["attention"] = fastest_attention(heads, context, model.embed.embedding_dim // heads)
    tokens = torch.arange(options.batch * context, device="cuda") % symbols
    x = tokens.view(options.batch, context)
    return train([(model, adam(torch.optim.AdamW))],
                 lambda model: [F.cross_entropy(model(x).flatten(0, 1), tokens)])


def lstm_step():
    model = torch.nn.LSTM(512, 512, 2, batch_first=True).cuda()
    x, t = (torch.rand(options.batch, 32, 512, device="cuda") for _ in range(2))
    return train([(model, adam())], lambda model: [F.mse_loss(model(x)[0].float(), t)])


def dcgan_step():
    order = torch.channels_last if options.channels_last else torch.contiguous_format
    gen, dis = (network().cuda().to(memory_format=order)
                for network in (peer_models.dcgan_generator, peer_models.dcgan_discriminator))
    real = torch.rand(options.batch, 3, 32, 32, device="cuda").to(memory_format=order)
    ones, zeros = (make(options.batch, 1, device="cuda") for make in (torch.ones, torch.zeros))
    entropy = F.binary_cross_entropy_with_logits

    def losses(gen, dis):
        real_scores = dis(real)
        fake_scores = dis(gen(2 * torch.rand(options.batch, 100, device="cuda") - 1))
        return [entropy(fake_scores, ones),
                entropy(real_scores, ones) + entropy(fake_scores, zeros)]

    return train([(gen, adam()), (dis, adam())], losses)


STEPS = {"gpt": text_step, "lstm": lstm_step, "dcgan": dcgan_step,
         "gpt2_small": lambda: text_step(layers=12, heads=12, width=768, context=1024, symbols=50304)}


def measure(step):
    """The number of steps, and the seconds that they took."""
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
    return steps, seconds_of(steps)


def within(attention):
    """A context in which attention is computed by that backend."""
    if attention is None:
        return contextlib.nullcontext()
    from torch.nn.attention import sdpa_kernel
    return sdpa_kernel([attention])


def main():
    if not torch.cuda.is_available():
        raise SystemExit("peer_gpu_step.py: PyTorch sees no GPU")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    tf32 = options.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    step = STEPS.get(options.model, image_step)()
    attention = chosen.get("attention")
    with within(attention):
        steps, seconds = measure(step)
    print(json.dumps({"model": options.model, "batch": options.batch,
                      "precision": options.precision, "mode": options.mode,
                      "channels_last": options.channels_last, "steps": steps,
                      "attention": attention.name if attention else None,
                      "examples_per_second": steps * options.batch / seconds,
                      "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}))


main()
