"""The networks of models/ in PyTorch, for benchmarks: the same layers, sizes and biases."""
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


def image_shape(model):
    return {"mlp": (784,), "lenet": (1, 28, 28)}.get(model, (3, 32, 32))
