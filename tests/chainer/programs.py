"""Cases that run a training program."""

import json

import chainer
import chainer.links as L
import numpy as np

from compare import Differences, run

MODEL = "updater/model:main/"
# A step that moves running statistics and nothing else.
STANDING_STILL = ["--optimizer", "sgd", "--lr", "1e-30", "--lr-scaling", "none", "--lr-schedule",
                  "constant", "--weight-decay", "0"]


def newest(folder, pattern="snapshot_iter_*"):
    return max(folder.glob(pattern), key=lambda path: int(path.name.split("_")[2].split(".")[0]))


def loss_of(model, split, train=False):
    with chainer.using_config("train", train), chainer.no_backprop_mode():
        return float(model(*split).array)


class Program:
    """A program with a loss on each split. In both directions: a program trains, Chainer loads its
    snapshot (strictly: every weight has to be there in its shape) and must find the program's
    validation loss; Chainer saves weights, the program starts from them with --init, takes one
    step with a vanishing learning rate, and must find Chainer's losses."""

    def __init__(self, words, data, make, *, compares_training=True, optimizer=None,
                 saved=lambda model: model):
        """`make()`: Chainer's model, with its loss; it saves the part `saved(model)`.
        `compares_training`: the training loss, too. `optimizer`: a function that creates Chainer's,
        and the program's flags for the same one, if a step of it is to be compared."""
        self.words, self.data, self.make = words, data, make
        self.compares_training, self.optimizer, self.saved = compares_training, optimizer, saved

    def files(self, folder):
        return ["--data", folder]

    def train(self, folder, out, flags):
        """The log and the last snapshot."""
        run([*self.words, *self.files(folder), "--out", folder / out, "--threads", "2", "--quiet",
             "--overwrite", *flags])
        return json.loads((folder / out / "log").read_text()), newest(folder / out)

    def check(self, folder):
        differences = Differences()
        train, test = self.data.write(folder, np.random.RandomState(0))
        self.check_to_chainer(folder, test, differences)
        self.check_from_chainer(folder, train, test, differences)
        if self.optimizer:
            self.check_optimizer(folder, train, differences)
        return differences

    def check_to_chainer(self, folder, test, differences):
        log, snapshot = self.train(folder, "ours", ["-e", "1", "-b", "8", "--seed", "3"])
        model = self.make()
        chainer.serializers.load_npz(str(snapshot), model, path=MODEL)
        differences.compare("validation loss of our weights", log[-1]["validation/main/loss"],
                            loss_of(model, test))

    def check_from_chainer(self, folder, train, test, differences):
        model = self.make()
        loss_of(model, test)  # gives weights their shapes
        weights = folder / "chainers.npz"
        chainer.serializers.save_npz(str(weights), self.saved(model), compression=False)
        log, _ = self.train(folder, "from_chainer", ["-e", "1", "--init", weights, "-b",
                                                     str(len(train[0])), *STANDING_STILL])
        # In training, so that running statistics move as ours have moved.
        loss = loss_of(model, train, True)
        if self.compares_training:
            differences.compare("training loss of Chainer's weights", log[-1]["main/loss"], loss)
        differences.compare("validation loss of Chainer's weights",
                            log[-1]["validation/main/loss"], loss_of(model, test))

    def check_optimizer(self, folder, train, differences):
        """Chainer takes the second step, from the weights and the optimizer's state after the
        first; each step is over all training data."""
        create, flags = self.optimizer
        self.train(folder, "steps", ["-e", "2", "-b", str(len(train[0])), "--lr-scaling", "none",
                                     "--lr-schedule", "constant", "--snapshot-every", "1", *flags])
        model = self.make()
        optimizer = create().setup(model)
        load_training(folder / "steps" / "snapshot_iter_1", model, optimizer)
        optimizer.update(model, *train)
        compare_training(folder / "steps" / "snapshot_iter_2", model, optimizer, differences)


def load_training(snapshot, model, optimizer, name="main"):
    chainer.serializers.load_npz(str(snapshot), model, path=f"updater/model:{name}/")
    chainer.serializers.load_npz(str(snapshot), optimizer, path=f"updater/optimizer:{name}/")


def compare_training(snapshot, model, optimizer, differences, name="main"):
    """All weights and the optimizer's state of each."""
    arrays = np.load(snapshot)
    differences.compare("updates", arrays[f"updater/optimizer:{name}/t"], optimizer.t)
    for path, parameter in model.namedparams():
        differences.compare(f"{path[1:]} after a step", arrays[f"updater/model:{name}{path}"],
                            parameter.array)
        for key, value in parameter.update_rule.state.items():
            differences.compare(f"{path[1:]}/{key} after a step",
                                arrays[f"updater/optimizer:{name}{path}/{key}"], value)


def classifier(make):
    return lambda: L.Classifier(make())


class Translation(Program):
    """train_seq2seq on files."""

    def files(self, folder):
        return [word for flag, name in (("source", "train.source"), ("target", "train.target"),
                                        ("test-source", "test.source"),
                                        ("test-target", "test.target"))
                for word in (f"--{flag}", folder / name)]


class ImageNet(Program):
    """train_imagenet; weights come as ChainerMN's example saves them, without a classifier."""

    def __init__(self, words, data, make):
        # Losses of the training images, which have one colour each, magnify rounding.
        super().__init__([*words, "--image-size", data.side, "--resize", data.side], data, make,
                         compares_training=False, saved=lambda model: model.predictor)

    def files(self, folder):
        return ["--data", folder, "--mean", folder / "mean.npy"]


class LanguageModel(Program):
    """train_lm."""

    def files(self, folder):
        return ["--data", folder / "text"]
