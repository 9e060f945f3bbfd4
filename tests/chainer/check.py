#!/usr/bin/env python3
"""Exchanges weights between our programs and Chainer 7.8.1, and compares what both compute.

    scripts/check_chainer.sh [CASE...]

Prints a line for each case, with the largest difference: of norms, relative to Chainer's. One of
1e-5 or more is a failure, whose line goes to stderr. A case is a program, whose weights go to Chainer and back (programs.py,
gan.py, parts.py), or layers that no program has (passes.py).
"""

import argparse
import pathlib
import sys
import tempfile
import time

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

import networks
import passes
import sequences
from data import Cifar, Digits, Pictures, Sentences, Text
from gan import Gan
from parts import ChannelParallel, ModelParallel
from programs import ImageNet, LanguageModel, Program, Translation, classifier


def googlenet_loss(scores, t):
    """Of all three classifiers, as in ChainerMN."""
    main, first, second = (F.softmax_cross_entropy(y, t) for y in scores)
    return 0.3 * (first + second) + main


def cases(build):
    apps, tool = build / "apps", build / "tests" / "chainer" / "chainer_pass"

    def cifar(arch, **settings):
        return Program([apps / "train_cifar", "--arch", arch, "--augment=false", "--lr", "0.001"],
                       Cifar(), classifier(getattr(networks, arch)), **settings)

    def imagenet(arch, side):
        make = getattr(networks, arch)

        def model():
            if arch == "googlenetbn":
                made = L.Classifier(make(Pictures.CLASSES, side), lossfun=googlenet_loss)
                made.compute_accuracy = False
                return made
            return L.Classifier(make(Pictures.CLASSES, side))

        return ImageNet([apps / "train_imagenet", "--arch", arch, "--lr", "0.001"], Pictures(side),
                        model)

    momentum = (lambda: chainer.optimizers.MomentumSGD(0.001, 0.9),
                ["--optimizer", "momentum_sgd", "--lr", "0.001", "--weight-decay", "0"])
    return {
        "mlp": Program([apps / "train_mnist", "-u", "40"], Digits(flat=True),
                       classifier(lambda: networks.mlp(40)),
                       optimizer=(chainer.optimizers.Adam, [])),
        "lenet": Program([apps / "train_lenet"], Digits(flat=False), classifier(networks.lenet),
                         optimizer=momentum),
        "cnn10": cifar("cnn10"),
        "vgg_small": cifar("vgg_small", compares_training=False),
        "vgg16_bn": cifar("vgg16_bn"),
        "resnet20": cifar("resnet20"),
        "wrn_28_10": cifar("wrn_28_10"),
        "resnet18": imagenet("resnet18", 80),
        "resnet50": imagenet("resnet50", 80),
        "googlenetbn": imagenet("googlenetbn", 64),
        "nin": imagenet("nin", 63),
        "alex": imagenet("alex", 63),
        "seq2seq": Translation([apps / "train_seq2seq", "--unit", "12", "--layer", "2",
                                "--dropout", "0"], Sentences(),
                               lambda: sequences.Seq2seq(2, Sentences.WORDS + 2, 12)),
        "dcgan": Gan(apps / "train_dcgan", tool),
        "lm": LanguageModel([apps / "train_lm", "--layers", "2", "--heads", "2", "--width", "16",
                             "--context", "12"], Text(12),
                            lambda: sequences.GPT(2, 2, 16, 12)),
        "model_parallel": ModelParallel(apps / "train_mnist_model_parallel", 2),
        "dual_parallel": ModelParallel(apps / "train_mnist_dual_parallel", 4),
        "channel_parallel": ChannelParallel(apps / "train_cifar_channel_parallel", 2),
        "recurrent": passes.Layers(tool, passes.RECURRENT),
        "normalization": passes.Layers(tool, passes.NORMALIZATIONS),
        "layers": passes.Layers(tool, [passes.deconvolution, passes.embed_id]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("case", nargs="*")
    arguments = parser.parse_args()
    known = cases(arguments.build.resolve())
    for name in arguments.case:
        if name not in known:
            print(f"check_chainer: there is no case {name}; there are {', '.join(known)}",
                  file=sys.stderr)
            sys.exit(64)
    failed = False
    for name in arguments.case or known:
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            np.random.seed(0)  # Chainer draws initial weights from it
            try:
                result, stream = str(known[name].check(pathlib.Path(folder))), sys.stdout
            except Exception as error:  # the next case may still tell something
                result, stream, failed = f"FAILED: {error}", sys.stderr, True
            print(f"{name}: {result}, {time.monotonic() - start:.1f} s", file=stream, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
