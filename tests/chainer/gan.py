"""train_dcgan: two models, two optimizers, and losses that depend on random numbers of ours. So
weights are exchanged through the program's files, and passes are compared (passes.py)."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from compare import Differences, run
from data import Cifar
from networks import Chain
from passes import compare_passes, normal, weights_of
from programs import compare_training, load_training, newest

HIDDEN, WIDTH = 10, 16


class Generator(Chain):
    """ChainerMN's DCGAN, of 32 x 32 pixels."""

    def __init__(self, hidden, width):
        self.smallest = (width, 4, 4)
        halves = [width // 2**i for i in range(4)]
        children = {f"dc{i}": L.Deconvolution2D(halves[i - 1], halves[i], 4, 2, 1)
                    for i in (1, 2, 3)}
        norms = {f"bn{i}": L.BatchNormalization(halves[i]) for i in (1, 2, 3)}
        super().__init__(l0=L.Linear(hidden, 16 * width), bn0=L.BatchNormalization(16 * width),
                         **children, **norms, dc4=L.Deconvolution2D(halves[3], 3, 3, 1, 1))

    def forward(self, z):
        x = F.reshape(F.relu(self.bn0(self.l0(z))), (len(z), *self.smallest))
        for i in (1, 2, 3):
            x = F.relu(self[f"bn{i}"](self[f"dc{i}"](x)))
        return F.sigmoid(self.dc4(x))


class Discriminator(Chain):
    """ChainerMN's DCGAN, without its noise: for evaluations."""

    def __init__(self, width):
        children, channels = {"c0_0": L.Convolution2D(3, width // 8, 3, 1, 1)}, width // 8
        for name in ("0_1", "1_0", "1_1", "2_0", "2_1", "3_0"):
            if name.endswith("1"):  # halves the images
                conv = L.Convolution2D(channels, 2 * channels, 4, 2, 1)
            else:
                conv = L.Convolution2D(channels, channels, 3, 1, 1)
            channels = conv.out_channels
            children["c" + name] = conv
            children["bn" + name] = L.BatchNormalization(channels, use_gamma=False)
        super().__init__(**children, l4=L.Linear(16 * width, 1))

    def forward(self, x):
        x = F.leaky_relu(self.c0_0(x))
        for name in self.order:
            if name.startswith("c") and name != "c0_0":
                x = F.leaky_relu(self["bn" + name[1:]](self[name](x)))
        return self.l4(x)


def models():
    return {"gen": Generator(HIDDEN, WIDTH), "dis": Discriminator(WIDTH)}


class Gan:
    def __init__(self, program, tool):
        self.program, self.tool = program, tool

    def train(self, folder, out, flags):
        run([self.program, "--data", folder, "--channels", WIDTH, "-n", HIDDEN, "-b", "5",
             "--snapshot-interval", "1", "--out", folder / out, "--quiet", "--threads", "2",
             *flags])
        return {name: newest(folder / out, f"{name}_iter_*") for name in models()}

    def check(self, folder):
        differences = Differences()
        Cifar().write(folder, np.random.RandomState(0))
        files = self.train(folder, "ours", ["-e", "1"])
        ours = models()
        for name, model in ours.items():
            chainer.serializers.load_npz(str(files[name]), model)
        self.compare_all(folder, ours, differences)
        for name, model in models().items():
            optimizer = chainer.optimizers.Adam().setup(model)
            snapshot = newest(folder / "ours")
            load_training(snapshot, model, optimizer, name)
            compare_training(snapshot, model, optimizer, differences, name)

        chainers = models()
        flags = ["--max-iterations", "1", "--lr", "1e-30"]
        for name, model in chainers.items():
            chainer.serializers.save_npz(str(folder / f"{name}.npz"), model)
            flags += [f"--{name}-model", folder / f"{name}.npz"]
        files = self.train(folder, "from_chainer", flags)
        for name, model in chainers.items():
            saved = np.load(files[name])
            for path, value in weights_of(model).items():
                if "avg_" not in path:  # training moves those
                    differences.compare(f"{name}/{path} of Chainer", saved[path], value)
        self.compare_all(folder, chainers, differences)
        return differences

    def compare_all(self, folder, pair, differences):
        random = np.random.RandomState(2)
        z, images = normal(random, 6, HIDDEN), normal(random, 6, 3, 32, 32)
        for name, x, train in (("gen", z, False), ("gen", z, True), ("dis", images, False)):
            compare_passes(self.tool, "dcgan_" + name, folder, pair[name],
                           lambda model, v: [model(v)], {"x": x}, differences, train)
