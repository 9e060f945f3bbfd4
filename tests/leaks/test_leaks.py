"""Short trainings under valgrind, and the memory of longer ones.

    test_leaks.py TRAIN_MNIST GUEST_PROGRAM [unittest arguments]

Under valgrind nothing may be lost, and no memory read or written that is not there or has no value,
apart from what valgrind.supp says of MPI.
"""
import functools
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SUPPRESSIONS = pathlib.Path(__file__).resolve().parent / "valgrind.supp"
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
RANDOM = random.Random(0)


def write_idx(folder, part, count):
    """A data set of noise in MNIST's format."""
    (folder / f"{part}-images-idx3-ubyte").write_bytes(
        struct.pack(">4I", 0x803, count, 28, 28) + RANDOM.randbytes(count * 784))
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(
        struct.pack(">2I", 0x801, count) + bytes(RANDOM.randrange(10) for _ in range(count)))


class Leaks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        write_idx(self.work, "train", 200)
        write_idx(self.work, "t10k", 60)

    def train(self, *arguments, before=(), ranks=2):
        return self.run_ranks(TRAIN_MNIST, "--data", self.work, "--out", self.work / "result",
                              "--unit", "16", "--batchsize", "10", "--threads", "1", *arguments,
                              before=before, ranks=ranks)

    def run_ranks(self, *command, before=(), ranks=2):
        # oneDNN's generated AVX2 code moves the stack and reads past it, which valgrind takes for an
        # error of the program; its SSE code does not.
        environment = dict(os.environ, DNNL_MAX_CPU_ISA="SSE41")
        return subprocess.run([*MPIRUN, "-np", str(ranks), *before, *command], env=environment,
                              capture_output=True, text=True)

    def check_under_valgrind(self, run):
        if not shutil.which("valgrind"):
            self.skipTest("valgrind is not installed")
        valgrind = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite",
                    "--errors-for-leak-kinds=definite", "--num-callers=40", "--error-exitcode=99",
                    f"--suppressions={SUPPRESSIONS}", f"--log-file={self.work}/valgrind.%p"]
        done = run(before=valgrind)
        logs = sorted(self.work.glob("valgrind.*"))
        self.assertEqual(len(logs), 2, done.stderr)
        self.assertEqual(done.returncode, 0,
                         done.stderr + "".join(log.read_text(errors="replace") for log in logs))

    def test_shared_memory_under_valgrind(self):
        self.check_under_valgrind(functools.partial(self.train, "--epoch", "1", "--communicator",
                                                    "single_node"))

    def test_mpi_under_valgrind(self):
        self.check_under_valgrind(functools.partial(self.train, "--epoch", "1", "--communicator",
                                                    "flat", "--optimizer", "momentum_sgd"))

    def test_many_trainings_inside_another_program_under_valgrind(self):
        self.check_under_valgrind(functools.partial(self.run_ranks, GUEST_PROGRAM, "trainings", "30"))

    def peak_memory(self, iterations):
        """MB of the rank that takes most."""
        done = self.train("--epoch", "1000", "--max-iterations", str(iterations))
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search(r"at most (\d+) MB of memory per rank", done.stdout).group(1))

    def test_memory_does_not_grow(self):
        self.assertLessEqual(self.peak_memory(1200), self.peak_memory(200) + 1)


TRAIN_MNIST, GUEST_PROGRAM = sys.argv.pop(1), sys.argv.pop(1)
unittest.main()
