"""What all cases use: running programs, and comparing numbers."""

import os
import subprocess

import numpy as np

TOLERANCE = 1e-5


def run(words, **environment):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


class Differences:
    """Between numbers of ours and Chainer's: the norm of a difference over that of Chainer's."""

    def __init__(self):
        self.largest, self.where = -1, "nothing was compared"

    def compare(self, what, ours, chainers, least=1e-12):
        """`least`: the smallest norm that a difference is compared with."""
        ours, chainers = np.asarray(ours, np.float64), np.asarray(chainers, np.float64)
        if ours.shape != chainers.shape:
            raise RuntimeError(f"{what}: ours has shape {ours.shape}, Chainer's {chainers.shape}")
        difference = np.linalg.norm(ours - chainers) / max(np.linalg.norm(chainers), least)
        if not difference < TOLERANCE:
            raise RuntimeError(f"{what}: ours and Chainer's differ by {difference:.1e}; expected "
                               f"less than {TOLERANCE:.0e}")
        if difference > self.largest:
            self.largest, self.where = difference, what

    def __str__(self):
        return f"{self.largest:.1e} ({self.where})"
