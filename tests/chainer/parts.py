"""Programs whose model is on several ranks. Each part loads in a chain of Chainer's and all of them
together compute what one process does; parts that Chainer saved load in the program."""

import json

import chainer
import chainer.links as L
import numpy as np

import networks
from compare import Differences, run
from data import Cifar, Digits
from programs import MODEL, STANDING_STILL, loss_of, newest


class Parts:
    """On each two of `ranks`. Of subclasses: `whole()`, the model of one process; `split(model)`,
    chains that share its weights or have parts of them; `join(parts)`, the reverse."""

    def __init__(self, program, ranks):
        self.program, self.ranks = program, ranks

    def train(self, folder, out, flags):
        """The log and the files of the first model's parts."""
        run(["mpirun", "--oversubscribe", "--bind-to", "none", "-np", self.ranks, self.program,
             "--data", folder, "--out", folder / out, "-e", "1", "--threads", "1", "--quiet",
             *self.flags, *flags],
            OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        snapshot = newest(folder / out).with_suffix("")
        return (json.loads((folder / out / "log").read_text()),
                [snapshot.with_suffix(f".{part}") for part in range(2)])

    def load(self, files, path):
        parts = self.split(self.whole())
        for file, part in zip(files, parts):
            chainer.serializers.load_npz(str(file), part, path=path)
        return self.join(parts)

    def check(self, folder):
        differences = Differences()
        train, test = self.data.write(folder, np.random.RandomState(0))
        log, files = self.train(folder, "ours", ["-b", "8"])
        differences.compare("validation loss of our weights", log[-1]["validation/main/loss"],
                            loss_of(self.load(files, MODEL), test))

        files = [folder / f"chainers.{part}" for part in range(2)]
        for name, part in zip(files, self.split(self.whole())):
            with open(name, "wb") as file:  # without an ending
                chainer.serializers.save_npz(file, part, compression=False)
        log, _ = self.train(folder, "from_chainer",
                            ["--init", folder / "chainers", "-b", len(train[0]) * 2 // self.ranks,
                             *STANDING_STILL])
        model = self.load(files, "")
        differences.compare("training loss of Chainer's weights", log[-1]["main/loss"],
                            loss_of(model, train, True))
        differences.compare("validation loss of Chainer's weights",
                            log[-1]["validation/main/loss"], loss_of(model, test))
        return differences


class ModelParallel(Parts):
    """The layers of a perceptron: l1 on one rank, l2 and l3 on the other."""

    data, flags = Digits(flat=True), ["-u", "20"]

    def whole(self):
        return L.Classifier(networks.mlp(20))

    def split(self, model):
        mlp = model.predictor.copy()  # of the children's parents, not of their weights
        return [networks.Chain(predictor=networks.Chain(l1=mlp.l1)),
                networks.Chain(predictor=networks.Chain(l2=mlp.l2, l3=mlp.l3))]

    def join(self, parts):
        model = self.whole()
        weights = dict(model.namedparams())
        for part in parts:
            for path, parameter in part.namedparams():
                weights.pop(path).array[...] = parameter.array
        assert not weights
        return model


class ChannelParallel(Parts):
    """The output channels of all convolutions: the first half on one rank, the others on the other."""

    data, flags = Cifar(), ["--lr", "0.001"]

    def whole(self):
        return L.Classifier(networks.vgg16_bn())

    def split(self, model):
        parts = [model.copy("copy") for _ in range(2)]
        for number, part in enumerate(parts):
            for path, parameter in part.namedparams():
                if path.endswith("conv/W"):
                    parameter.array = np.split(parameter.array, 2)[number].copy()
        return parts

    def join(self, parts):
        model = parts[0].copy("copy")
        for (path, parameter), *both in zip(model.namedparams(),
                                            *(part.params() for part in parts)):
            arrays = [part.array for part in both]
            if path.endswith("conv/W"):
                parameter.array = np.concatenate(arrays)
            else:
                assert np.array_equal(*arrays), path
        return model
