"""The models of our programs, written with Chainer. Names of children are those of our modules."""

import chainer
import chainer.functions as F
import chainer.links as L


class Chain(chainer.Chain):
    """A chain of named children in the order of the arguments."""

    def __init__(self, **children):
        super().__init__()
        self.order = list(children)
        with self.init_scope():
            for name, child in children.items():
                setattr(self, name, child)

    def forward(self, x):
        for name in self.order:
            x = self[name](x)
        return x


def mlp(unit, classes=10):
    class MLP(Chain):
        def forward(self, x):
            return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))

    return MLP(l1=L.Linear(784, unit), l2=L.Linear(unit, unit), l3=L.Linear(unit, classes))


def lenet():
    class LeNet(Chain):
        def forward(self, x):
            x = F.average_pooling_2d(F.relu(self.conv1(x)), 2)
            x = F.average_pooling_2d(F.relu(self.conv2(x)), 2)
            return self.fc2(F.relu(self.fc1(x)))

    return LeNet(conv1=L.Convolution2D(1, 20, 3), conv2=L.Convolution2D(20, 50, 5),
                 fc1=L.Linear(800, 128), fc2=L.Linear(128, 10))


def convolution(channels, width, kernel=3, stride=1):
    return L.Convolution2D(channels, width, kernel, stride, kernel // 2, nobias=True)


class Block(Chain):
    def __init__(self, channels, width):
        super().__init__(conv=convolution(channels, width), bn=L.BatchNormalization(width))

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


def mean_of_pixels(x):
    return F.mean(x, axis=(2, 3))


class Stages(Chain):
    """Blocks "block1_1", "block1_2", ... with `pool` after each stage, the last one included if
    `pools_last`; the mean over what is left; fc."""

    def __init__(self, stages, pool, pools_last, classes=10):
        children, channels = {}, 3
        for number, (blocks, width) in enumerate(stages, 1):
            for i in range(1, blocks + 1):
                children[f"block{number}_{i}"] = Block(channels, width)
                channels = width
        super().__init__(**children, fc=L.Linear(channels, classes))
        self.stages, self.pool, self.pools_last = stages, pool, pools_last

    def forward(self, x):
        for number, (blocks, _) in enumerate(self.stages, 1):
            for i in range(1, blocks + 1):
                x = self[f"block{number}_{i}"](x)
            if number < len(self.stages) or self.pools_last:
                x = self.pool(x)
        return self.fc(mean_of_pixels(x))


def cnn10():
    return Stages([(3, 64), (3, 128), (3, 256)], lambda x: F.average_pooling_2d(x, 2), False)


def vgg16_bn():
    return Stages([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)],
                  lambda x: F.max_pooling_2d(x, 2), True)


def vgg_small():
    class VGG(Chain):
        def forward(self, x):
            for number, convolutions in ((1, 2), (2, 2), (3, 3)):
                for i in range(1, convolutions + 1):
                    x = F.relu(self[f"conv{number}_{i}"](x))
                x = F.max_pooling_2d(x, 2)
            return self.fc2(F.dropout(F.relu(self.fc1(x)), 0.5))

    children, channels = {}, 3
    for number, convolutions, width in ((1, 2, 64), (2, 2, 128), (3, 3, 256)):
        for i in range(1, convolutions + 1):
            children[f"conv{number}_{i}"] = L.Convolution2D(channels, width, 3, 1, 1)
            channels = width
    return VGG(**children, fc1=L.Linear(4096, 1024), fc2=L.Linear(1024, 10))


class Residual(Chain):
    """relu(convolutions + shortcut), each convolution (width, kernel, stride) with its bn."""

    def __init__(self, channels, convolutions):
        children, stride, width = {}, 1, channels
        for i, (width_out, kernel, step) in enumerate(convolutions, 1):
            children[f"conv{i}"] = convolution(width, width_out, kernel, step)
            children[f"bn{i}"] = L.BatchNormalization(width_out)
            width, stride = width_out, stride * step
        self.length = len(convolutions)
        self.has_shortcut = stride != 1 or width != channels
        if self.has_shortcut:
            children[f"conv{self.length + 1}"] = convolution(channels, width, 1, stride)
            children[f"bn{self.length + 1}"] = L.BatchNormalization(width)
        super().__init__(**children)

    def pair(self, i, x):
        return self[f"bn{i}"](self[f"conv{i}"](x))

    def forward(self, x):
        y = x
        for i in range(1, self.length + 1):
            y = self.pair(i, y)
            if i < self.length:
                y = F.relu(y)
        return F.relu(y + (self.pair(self.length + 1, x) if self.has_shortcut else x))


class ResNet(Chain):
    """`conv1` and `pool`: how images enter; `make(width, stride)`: the convolutions of a block."""

    def __init__(self, conv1, pool, blocks, make, classes=10):
        channels = width = conv1.out_channels
        children = {"conv1": conv1, "bn1": L.BatchNormalization(channels)}
        for stage, number in enumerate(blocks):
            names = {}
            for i in range(number):
                convolutions = make(width, 2 if stage > 0 and i == 0 else 1)
                names[str(i)] = Residual(channels, convolutions)
                channels = convolutions[-1][0]
            children[f"res{stage + 2}"] = Chain(**names)
            width *= 2
        super().__init__(**children, fc=L.Linear(channels, classes))
        self.pool, self.count = pool, len(blocks)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        for stage in range(self.count):
            x = self[f"res{stage + 2}"](x)
        return self.fc(mean_of_pixels(x))


def basic(width, stride):
    return [(width, 3, stride), (width, 3, 1)]


def bottleneck(width, stride):
    return [(width, 1, stride), (width, 3, 1), (4 * width, 1, 1)]


def resnet20():
    return ResNet(convolution(3, 16), lambda x: x, [3, 3, 3], basic)


def imagenet_resnet(blocks, make, classes, side):
    """With ImageNet's stem above 64 pixels."""
    if side <= 64:
        return ResNet(convolution(3, 64), lambda x: x, blocks, make, classes)
    return ResNet(L.Convolution2D(3, 64, 7, 2, 3), lambda x: F.max_pooling_2d(x, 3, 2), blocks, make,
                  classes)


def resnet18(classes=10, side=32):
    return imagenet_resnet([2, 2, 2, 2], basic, classes, side)


def resnet50(classes=10, side=32):
    """Above 64 pixels, ChainerMN's ResNet50."""
    return imagenet_resnet([3, 4, 6, 3], bottleneck, classes, side)


def wrn_28_10():
    class Wide(Chain):
        def forward(self, x):
            h = F.relu(self.bn1(x))
            y = self.conv2(F.relu(self.bn2(self.conv1(h))))
            return y + (self.shortcut(h) if "shortcut" in self.order else x)

    class WRN(Chain):
        def forward(self, x):
            x = self.group3(self.group2(self.group1(self.conv1(x))))
            return self.fc(mean_of_pixels(F.relu(self.bn(x))))

    groups, channels = {}, 16
    for group, width in ((1, 160), (2, 320), (3, 640)):
        blocks = {}
        for i in range(1, 5):
            stride = 2 if group > 1 and i == 1 else 1
            parts = dict(bn1=L.BatchNormalization(channels),
                         conv1=convolution(channels, width, 3, stride),
                         bn2=L.BatchNormalization(width), conv2=convolution(width, width))
            if channels != width:
                parts["shortcut"] = convolution(channels, width, 1, stride)
            blocks[f"block{i}"] = Wide(**parts)
            channels = width
        groups[f"group{group}"] = Chain(**blocks)
    return WRN(conv1=convolution(3, 16), **groups, bn=L.BatchNormalization(640),
               fc=L.Linear(640, 10))


def alex(classes, side):
    class Alex(Chain):
        def forward(self, x):
            for conv in (self.conv1, self.conv2):
                x = F.max_pooling_2d(F.local_response_normalization(F.relu(conv(x))), 3, 2)
            x = F.relu(self.conv4(F.relu(self.conv3(x))))
            x = F.max_pooling_2d(F.relu(self.conv5(x)), 3, 2)
            x = F.dropout(F.relu(self.fc6(x)))
            return self.fc8(F.dropout(F.relu(self.fc7(x))))

    return Alex(conv1=L.Convolution2D(3, 96, 11, 4), conv2=L.Convolution2D(96, 256, 5, pad=2),
                conv3=L.Convolution2D(256, 384, 3, pad=1), conv4=L.Convolution2D(384, 384, 3, pad=1),
                conv5=L.Convolution2D(384, 256, 3, pad=1), fc6=L.Linear(None, 4096),
                fc7=L.Linear(4096, 4096), fc8=L.Linear(4096, classes))


def nin(classes, side):
    class NIN(Chain):
        def forward(self, x):
            for mlpconv in (self.mlpconv1, self.mlpconv2, self.mlpconv3):
                x = F.max_pooling_2d(F.relu(mlpconv(x)), 3, 2)
            return mean_of_pixels(self.mlpconv4(F.dropout(x)))

    return NIN(mlpconv1=L.MLPConvolution2D(3, (96,) * 3, 11, stride=4),
               mlpconv2=L.MLPConvolution2D(96, (256,) * 3, 5, pad=2),
               mlpconv3=L.MLPConvolution2D(256, (384,) * 3, 3, pad=1),
               mlpconv4=L.MLPConvolution2D(384, (1024, 1024, classes), 3, pad=1))


def googlenetbn(classes, side):
    """Scores of the main classifier and of both auxiliary ones."""
    modules = {
        "inc3a": (64, 64, 64, 64, 96, "avg", 32), "inc3b": (64, 64, 96, 64, 96, "avg", 64),
        "inc3c": (0, 128, 160, 64, 96, "max", None, 2),
        "inc4a": (224, 64, 96, 96, 128, "avg", 128), "inc4b": (192, 96, 128, 96, 128, "avg", 128),
        "inc4c": (160, 128, 160, 128, 160, "avg", 128),
        "inc4d": (96, 128, 192, 160, 192, "avg", 128),
        "inc4e": (0, 128, 192, 192, 256, "max", None, 2),
        "inc5a": (352, 192, 320, 160, 224, "avg", 128),
        "inc5b": (352, 192, 320, 192, 224, "max", 128)}

    class GoogLeNetBN(Chain):
        def forward(self, x):
            x = F.max_pooling_2d(F.relu(self.norm1(self.conv1(x))), 3, 2, 1)
            x = F.max_pooling_2d(F.relu(self.norm2(self.conv2(x))), 3, 2, 1)
            auxiliary = []
            for name in modules:
                x = self[name](x)
                letter = {"inc4a": "a", "inc4d": "b"}.get(name)
                if letter:
                    h = F.average_pooling_2d(x, 5, 3)
                    h = F.relu(self["norm" + letter](self["conv" + letter](h)))
                    h = F.relu(self[f"norm{letter}2"](self["lin" + letter](h)))
                    auxiliary.append(self["out" + letter](h))
            return (self.out(F.average_pooling_2d(x, min(7, x.shape[2]))), *auxiliary)

    children = {name: L.InceptionBN(None, *settings) for name, settings in modules.items()}
    for letter in "ab":
        children |= {
            "conv" + letter: L.Convolution2D(None, 128, 1, nobias=True),
            "norm" + letter: L.BatchNormalization(128),
            "lin" + letter: L.Linear(None, 1024, nobias=True),
            f"norm{letter}2": L.BatchNormalization(1024),
            "out" + letter: L.Linear(1024, classes)}
    return GoogLeNetBN(conv1=convolution(3, 64, 7, 2), norm1=L.BatchNormalization(64),
                       conv2=convolution(64, 192), norm2=L.BatchNormalization(192),
                       out=L.Linear(1024, classes), **children)
