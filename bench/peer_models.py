"""The networks of models/ in PyTorch, for benchmarks: the same layers, sizes and biases."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def block(channels_in, channels_out):
    return [nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out), nn.ReLU(inplace=True)]


def mlp():
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(),
                         nn.Linear(1000, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5),
                         nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(),
                         nn.Linear(128, 10))


def cnn10():
    layers, channels = [], 3
    for width in (64, 128, 256):
        layers += [nn.AvgPool2d(2)] if channels > 3 else []
        for _ in range(3):
            layers += block(channels, width)
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))


def vgg16_bn():
    layers, channels = [], 3
    for count, width in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            layers += block(channels, width)
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class WideBlock(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(channels_in), nn.BatchNorm2d(channels_out)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.shortcut = (nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
                         if channels_in != channels_out else None)

    def forward(self, x):
        activated = F.relu(self.bn1(x), inplace=True)
        y = self.conv2(F.relu(self.bn2(self.conv1(activated)), inplace=True))
        return y + (self.shortcut(activated) if self.shortcut else x)


def wrn_28_10():
    layers, channels = [nn.Conv2d(3, 16, 3, padding=1, bias=False)], 16
    for group, width in enumerate((160, 320, 640)):
        for i in range(4):
            layers.append(WideBlock(channels, width, 2 if group and i == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.BatchNorm2d(640), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(640, 10))


class ResidualBlock(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels_out), nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Sequential() if channels_in == channels_out else nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
            nn.BatchNorm2d(channels_out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + self.shortcut(x), inplace=True)


def resnet20():
    layers, channels = block(3, 16), 16
    for group, width in enumerate((16, 32, 64)):
        for i in range(3):
            layers.append(ResidualBlock(channels, width, 2 if group and i == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.attention = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention(seen.transpose(1, 2).flatten(2))
        return x + self.output(F.gelu(self.hidden(self.norm2(x))))


class Gpt(nn.Module):
    """N x context symbols to their scores."""
    def __init__(self, layers=4, heads=4, width=256, context=128, symbols=256):
        super().__init__()
        self.embed, self.position = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(layers)])
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)
        for name, w in self.named_parameters():
            if w.dim() == 2:
                last = name.endswith(("attention.weight", "output.weight"))
                nn.init.normal_(w, std=0.02 / math.sqrt(2 * layers) if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(w)

    def forward(self, x):
        return self.scores(self.norm(self.blocks(self.embed(x) + self.position.weight)))


class Noise(nn.Module):
    def forward(self, x):
        return x + 0.2 * torch.randn_like(x)


def dcgan_generator(channels=512):
    layers = [nn.Linear(100, 16 * channels), nn.BatchNorm1d(16 * channels), nn.ReLU(inplace=True),
              nn.Unflatten(1, (channels, 4, 4))]
    for i in range(3):
        layers += [nn.ConvTranspose2d(channels >> i, channels >> i + 1, 4, 2, 1),
                   nn.BatchNorm2d(channels >> i + 1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels >> 3, 3, 3, 1, 1), nn.Sigmoid())


def dcgan_discriminator(channels=512):
    def convolve(before, after, halve, normalise=True):
        made = [nn.Conv2d(before, after, 4 if halve else 3, 2 if halve else 1, 1)]
        made += [nn.BatchNorm2d(after)] if normalise else []
        return made + [Noise(), nn.LeakyReLU(0.2, inplace=True)]

    layers = [Noise()] + convolve(3, channels >> 3, False, False)
    for i in (3, 2, 1):
        layers += convolve(channels >> i, channels >> i - 1, True)
        layers += convolve(channels >> i - 1, channels >> i - 1, False)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * channels, 1))


def image_shape(model):
    return {"mlp": (784,), "lenet": (1, 28, 28)}.get(model, (3, 32, 32))
