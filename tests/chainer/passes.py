"""Cases that run one of our layers or models forward and backward (chainer_pass.cpp)."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from compare import Differences, run


def weights_of(model):
    """All that a file of Chainer's keeps, by path."""
    serializer = chainer.serializers.DictionarySerializer()
    serializer.save(model)
    return serializer.target


def compare_passes(program, name, folder, model, call, inputs, differences, train=True):
    """`call(model, x)`: Chainer's results, from the variable of inputs["x"]. Compares them and, in
    training, gradients of a sum of the results with random weights."""
    random = np.random.RandomState(1)
    x = chainer.Variable(inputs["x"])
    with chainer.using_config("train", train):
        arrays = {f"model/{path}": value.copy() for path, value in weights_of(model).items()}
        results = call(model, x)
    arrays.update(inputs)
    weights = [random.normal(size=y.shape).astype(np.float32) for y in results]
    if train:
        arrays.update({f"dy{i}": weight for i, weight in enumerate(weights)})
    np.savez(folder / f"{name}_inputs.npz", **arrays)
    run([program, name, folder / f"{name}_inputs.npz", folder / f"{name}_results.npz"])
    ours = np.load(folder / f"{name}_results.npz")
    for i, y in enumerate(results):
        differences.compare(f"result {i} of {name}", ours[f"y{i}"], y.array)
    if not train:
        return
    model.cleargrads()
    sum(F.sum(y * weight) for y, weight in zip(results, weights)).backward()
    if x.grad is not None:
        differences.compare(f"gradient of {name}'s input", ours["dx"], x.grad)
    # Relative to the largest at least: a bias before a normalisation has rounding alone.
    least = max((np.linalg.norm(p.grad) for p in model.params()), default=0)
    for path, parameter in model.namedparams():
        differences.compare(f"gradient of {name}{path}", ours["grad" + path], parameter.grad, least)


class Layers:
    """Several layers: each a function of a random generator that returns Chainer's link, a call as
    compare_passes takes it, and the inputs."""

    def __init__(self, program, layers):
        self.program, self.layers = program, layers

    def check(self, folder):
        differences = Differences()
        for layer in self.layers:
            random = np.random.RandomState(0)
            model, call, inputs = layer(random)
            for parameter in model.params():  # biases are not 0 then
                parameter.array[...] = random.normal(size=parameter.shape, scale=0.5)
            compare_passes(self.program, layer.__name__, folder, model, call, inputs, differences)
        return differences


def normal(random, *shape):
    return random.normal(size=shape).astype(np.float32)


def called(link, x):
    return link, lambda model, v: [model(v)], {"x": x}


def layer_norm(random):
    return called(L.LayerNormalization(6), normal(random, 5, 6))


def group_norm(random):
    return called(L.GroupNormalization(3, 6), normal(random, 4, 6, 3, 2))


def embed_id(random):
    return called(L.EmbedID(7, 5), random.randint(0, 7, (4, 3)).astype(np.int32))


def deconvolution(random):
    return called(L.Deconvolution2D(4, 6, (3, 4), stride=(2, 3), pad=1, groups=2),
                  normal(random, 2, 4, 5, 3))


def local_response_norm(random):
    return (chainer.Chain(), lambda model, x: [F.local_response_normalization(x)],
            {"x": 20 * normal(random, 2, 7, 3, 4)})


def n_step(link, has_cells):
    """A recurrent network over sequences of different length, padded with zeros on our side."""
    def layer(random):
        lengths = np.array([5, 2, 4], np.int64)
        x = normal(random, len(lengths), 5, 3)

        def call(model, variable):
            sequences = [variable[i, :length] for i, length in enumerate(lengths)]
            *states, ys = model(None, *([None] if has_cells else []), sequences)
            padded = F.pad_sequence(ys, length=x.shape[1])
            # Ours are N x S x units for each child of the link.
            return [padded, *(F.stack([state[child] for state in states], axis=1)
                              for child in range(states[0].shape[0]))]

        return link(2, 3, 4, 0), call, {"x": x, "lengths": lengths}

    layer.__name__ = link.__name__.replace("NStep", "n_step_").lower()
    return layer


RECURRENT = [n_step(L.NStepLSTM, True), n_step(L.NStepBiLSTM, True), n_step(L.NStepGRU, False),
             n_step(L.NStepBiGRU, False)]
NORMALIZATIONS = [layer_norm, group_norm, local_response_norm]
