"""The models of train_seq2seq and train_lm, written with Chainer. Calling one gives the loss."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from networks import Chain


class Seq2seq(chainer.Chain):
    """ChainerMN's seq2seq: the mean loss over the words of the targets."""

    def __init__(self, layers, words, units):
        super().__init__()
        with self.init_scope():
            self.embed_x = L.EmbedID(words, units)
            self.embed_y = L.EmbedID(words, units)
            self.encoder = L.NStepLSTM(layers, units, units, 0)
            self.decoder = L.NStepLSTM(layers, units, units, 0)
            self.W = L.Linear(units, words)

    def __call__(self, sources, targets):
        end = np.zeros(1, np.int32)
        h, c, _ = self.encoder(None, None, [self.embed_x(x[::-1].copy()) for x in sources])
        _, _, ys = self.decoder(h, c, [self.embed_y(np.concatenate([end, t])) for t in targets])
        answers = np.concatenate([np.concatenate([t, end]) for t in targets])
        return F.softmax_cross_entropy(self.W(F.concat(ys, axis=0)), answers)


class GPT(Chain):
    """train_lm's transformer: the mean loss of the N x T symbols `t` that follow those of `ids`."""

    def __init__(self, layers, heads, width, context, symbols=256):
        def norm():
            return L.LayerNormalization(width, eps=1e-5)

        blocks = {str(i): Chain(norm1=norm(), qkv=L.Linear(width, 3 * width),
                                attention=L.Linear(width, width), norm2=norm(),
                                hidden=L.Linear(width, 4 * width),
                                output=L.Linear(4 * width, width)) for i in range(layers)}
        super().__init__(embed=L.EmbedID(symbols, width), position=L.EmbedID(context, width),
                         blocks=Chain(**blocks), norm=norm(),
                         scores=L.Linear(width, symbols, nobias=True))
        self.heads = heads

    def attend(self, qkv):
        items, length, width = qkv.shape
        size = width // 3 // self.heads
        q, k, v = F.split_axis(
            F.transpose(F.reshape(qkv, (items, length, 3 * self.heads, size)), (0, 2, 1, 3)), 3, 1)
        scores = F.matmul(q, k, transb=True) / float(np.sqrt(size))
        later = np.triu(np.full((length, length), -np.inf, qkv.dtype), 1)
        weights = F.softmax(scores + F.broadcast_to(later, scores.shape), axis=3)
        return F.reshape(F.transpose(F.matmul(weights, v), (0, 2, 1, 3)), (-1, width // 3))

    def forward(self, ids, t):
        items, length = ids.shape
        positions = np.broadcast_to(np.arange(length, dtype=np.int32), ids.shape)
        x = F.reshape(self.embed(ids) + self.position(positions), (items * length, -1))
        for name in self.blocks.order:
            block = self.blocks[name]
            qkv = F.reshape(block.qkv(block.norm1(x)), (items, length, -1))
            x += block.attention(self.attend(qkv))
            h = block.hidden(block.norm2(x))
            x += block.output(h * (1 + F.erf(h / float(np.sqrt(2)))) / 2)
        return F.softmax_cross_entropy(self.scores(self.norm(x)), t.ravel())
