"""Random data in the formats that our programs read. `write(folder, random)` returns the training
and the test split as Chainer's models take them."""

import struct
import zlib

import numpy as np

TRAIN, TEST = 20, 10  # examples


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
    """Pairs of sentences in two files, one per line, as ids of our vocabularies: 0 ends a sentence, 1
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


def write_png(path, pixels):
    """`pixels`: height x width x 3, of bytes."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    rows = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Pictures:
    """A folder of PNG files for each class, and a mean image. Training images have one colour each,
    so that crops are alike."""

    CLASSES = 5

    def __init__(self, side):
        self.side = side

    def write(self, folder, random):
        mean = random.uniform(0, 255, (3, self.side, self.side)).astype(np.float32)
        np.save(folder / "mean.npy", mean)
        splits = []
        for part, count in (("train", TRAIN), ("val", TEST)):
            x = random.randint(0, 256, (count, 1, 1, 3) if part == "train" else
                               (count, self.side, self.side, 3))
            x = np.broadcast_to(x, (count, self.side, self.side, 3))
            t = np.arange(count) % self.CLASSES
            for i in range(count):
                place = folder / part / str(t[i])
                place.mkdir(parents=True, exist_ok=True)
                write_png(place / f"{i}.png", x[i])
            splits.append((((x.transpose(0, 3, 1, 2) - mean) / np.float32(255)).astype(np.float32),
                           t.astype(np.int32)))
        return splits


class Text:
    """A file of bytes; every tenth block of windows is the test split."""

    def __init__(self, context):
        self.context = context

    def write(self, folder, random):
        windows = TRAIN + TEST
        block = windows // 10
        text = random.randint(32, 127, windows * self.context + 1)
        (folder / "text").write_bytes(text.astype(np.uint8).tobytes())
        x, t = (text[i:len(text) - 1 + i].reshape(windows, self.context).astype(np.int32)
                for i in (0, 1))
        is_test = np.arange(windows) // block % 10 == 9
        return [(x[part], t[part]) for part in (~is_test, is_test)]
