#!/usr/bin/env python3
"""Exchanges weights between our programs and Chainer 7.8.1, and compares what both compute.

    scripts/check_chainer.sh [CASE...]

For each case: a program trains on random data, Chainer loads its snapshot (strictly: every weight
has to be there in its shape) and must find the program's validation loss. Then Chainer saves
weights of its own, the program starts from them with --init, takes one step with a vanishing
learning rate, and must find Chainer's losses.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import chainer
import chainer.links as L
import numpy as np

import networks

TOLERANCE = 1e-4
TRAIN, TEST = 20, 10


def run(words, **kwargs):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600,
                          **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def agree(what, ours, chainers):
    error = abs(ours - chainers) / max(abs(chainers), 1e-12)
    if not error < TOLERANCE:
        raise RuntimeError(f"{what}: ours {ours:.7g}, Chainer's {chainers:.7g}")
    return error


# --- data in the formats that our programs read ---

def write_idx(path, array):
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


class Digits:
    """28 x 28 grey images in MNIST's format; `flat`: as vectors."""

    def __init__(self, flat):
        self.shape = (784,) if flat else (1, 28, 28)

    def write(self, folder, random):
        splits = []
        for prefix, count in (("train", TRAIN), ("t10k", TEST)):
            x, t = random.randint(0, 256, (count, 28, 28)), random.randint(0, 10, count)
            write_idx(folder / f"{prefix}-images-idx3-ubyte", x)
            write_idx(folder / f"{prefix}-labels-idx1-ubyte", t)
            splits.append((x.reshape(count, *self.shape) / np.float32(255), t))
        return [(x.astype(np.float32), t.astype(np.int32)) for x, t in splits]


class Cifar:
    """32 x 32 colour images in CIFAR-10's binary format."""

    def write(self, folder, random):
        splits = []
        for names, count in (([f"data_batch_{i}.bin" for i in range(1, 6)], TRAIN),
                             (["test_batch.bin"], TEST)):
            x, t = random.randint(0, 256, (count, 3, 32, 32)), random.randint(0, 10, count)
            for part, name in enumerate(names):
                rows = range(count * part // len(names), count * (part + 1) // len(names))
                (folder / name).write_bytes(
                    b"".join(bytes([t[i]]) + x[i].astype(np.uint8).tobytes() for i in rows))
            splits.append(((x / np.float32(255)).astype(np.float32), t.astype(np.int32)))
        return splits


class Sentences:
    """Pairs of sentences in two files, one a line, as ids of our vocabularies: 0 ends a sentence, 1
    is any word that training data do not have, then words by falling frequency and by letters."""

    WORDS = 9  # and the two numbers before them

    def write(self, folder, random):
        splits, numbers = [], {}
        for part, count in (("train", TRAIN), ("test", TEST)):
            pairs = {}
            for side in ("source", "target"):
                sentences = [[f"{side[0]}{w}" for w in random.randint(0, self.WORDS,
                                                                      random.randint(1, 8))]
                             for _ in range(count)]
                if part == "train":
                    sentences[0] = [f"{side[0]}{w}" for w in range(self.WORDS)]
                    words = sorted(w for sentence in sentences for w in sentence)
                    ranked = sorted(set(words), key=lambda w: (-words.count(w), w))
                    numbers.update({w: i + 2 for i, w in enumerate(ranked)})
                (folder / f"{part}.{side}").write_text(
                    "".join(" ".join(sentence) + "\n" for sentence in sentences))
                pairs[side] = [np.array([numbers[w] for w in sentence], np.int32)
                               for sentence in sentences]
            splits.append((pairs["source"], pairs["target"]))
        return splits


# --- cases ---

class ClassifierCase:
    """A program that trains a classifier of images."""

    def __init__(self, words, data, make, has_dropout=False):
        self.words, self.data, self.make, self.has_dropout = words, data, make, has_dropout

    def model(self):
        return L.Classifier(self.make())

    def files(self, folder):
        return ["--data", folder]

    def train(self, folder, out, flags):
        run([self.words[0], *self.words[1:], *self.files(folder), "--out", folder / out, "-e", "1",
             "--threads", "2", "--quiet", "--overwrite", *flags])
        log = json.loads((folder / out / "log").read_text())
        return log, next((folder / out).glob("snapshot_iter_*"))

    def loss(self, model, split, train):
        with chainer.using_config("train", train), chainer.no_backprop_mode():
            return float(model(*split).array)

    def check(self, folder):
        train, test = self.data.write(folder, np.random.RandomState(0))
        log, snapshot = self.train(folder, "ours", ["-b", "8", "--seed", "3"])
        model = self.model()
        chainer.serializers.load_npz(str(snapshot), model, path="updater/model:main/")
        to_chainer = agree("validation loss of our weights", log[-1]["validation/main/loss"],
                           self.loss(model, test, False))

        model = self.model()
        weights = folder / "chainers.npz"
        chainer.serializers.save_npz(str(weights), model)
        log, snapshot = self.train(folder, "from_chainer",
                                   ["--init", weights, "-b", str(TRAIN), "--optimizer", "sgd",
                                    "--lr", "1e-30", "--lr-scaling", "none", "--lr-schedule",
                                    "constant", "--weight-decay", "0"])
        # In training, so that running statistics move as ours have moved.
        loss = self.loss(model, train, True)
        if not self.has_dropout:
            agree("training loss of Chainer's weights", log[-1]["main/loss"], loss)
        from_chainer = agree("validation loss of Chainer's weights",
                             log[-1]["validation/main/loss"], self.loss(model, test, False))
        return f"ours in Chainer {to_chainer:.1e}, Chainer's in ours {from_chainer:.1e}"


class TranslationCase(ClassifierCase):
    """train_seq2seq on files."""

    def model(self):
        return self.make()

    def files(self, folder):
        return [word for flag, name in (("source", "train.source"), ("target", "train.target"),
                                        ("test-source", "test.source"),
                                        ("test-target", "test.target"))
                for word in (f"--{flag}", folder / name)]


def cases(apps):
    def cifar(arch, make, **settings):
        return ClassifierCase([apps / "train_cifar", "--arch", arch, "--augment=false", "--lr", "0.001"], Cifar(), make, **settings)

    return {
        "mlp": ClassifierCase([apps / "train_mnist", "-u", "40"], Digits(flat=True),
                              lambda: networks.mlp(40)),
        "lenet": ClassifierCase([apps / "train_lenet"], Digits(flat=False), networks.lenet),
        "cnn10": cifar("cnn10", networks.cnn10),
        "vgg_small": cifar("vgg_small", networks.vgg_small, has_dropout=True),
        "vgg16_bn": cifar("vgg16_bn", networks.vgg16_bn),
        "resnet20": cifar("resnet20", networks.resnet20),
        "resnet50": cifar("resnet50", networks.resnet50),
        "wrn_28_10": cifar("wrn_28_10", networks.wrn_28_10),
        "seq2seq": TranslationCase([apps / "train_seq2seq", "--unit", "12", "--layer", "2",
                                    "--dropout", "0"], Sentences(),
                                   lambda: networks.Seq2seq(2, Sentences.WORDS + 2, 12)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("case", nargs="*")
    arguments = parser.parse_args()
    known = cases(arguments.build.resolve() / "apps")
    for name in arguments.case:
        if name not in known:
            sys.exit(f"check_chainer: there is no case {name}; there are {', '.join(known)}")
    failed = 0
    for name in arguments.case or known:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{name}: {known[name].check(pathlib.Path(folder))}", flush=True)
            except Exception as error:  # the next case may still tell something
                failed += 1
                print(f"{name}: FAILED: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
