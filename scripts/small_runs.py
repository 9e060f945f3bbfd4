"""What scripts share that train small models on made-up data and compare bits."""
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import zipfile

SAVED = ("updater/model:", "updater/optimizer:")
AVERAGES = "extensions/WeightAverage"


class Failure(Exception):
    """What a run has instead of results."""
    word = "failed"


class Skipped(Failure):
    """This machine does not allow it."""
    word = "skipped"


def write_data(folder):
    """Small files in the formats of MNIST and CIFAR-10, a text, and sentences with translations."""
    noise = random.Random(7)
    mnist, cifar = folder / "mnist", folder / "cifar"
    mnist.mkdir(parents=True)
    cifar.mkdir()
    write_digits(mnist, 96, noise)
    for name in (*(f"data_batch_{file}" for file in range(1, 6)), "test_batch"):
        images = [bytes([noise.randrange(10)]) + noise.randbytes(3 * 32 * 32) for _ in range(12)]
        (cifar / f"{name}.bin").write_bytes(b"".join(images))
    for name, words in (("text", "the ranks of a machine add up their gradients"),
                        ("source", "one two three four five six seven"),
                        ("target", "un deux trois quatre cinq six sept")):
        lines = (" ".join(noise.choices(words.split(), k=noise.randint(3, 9))) for _ in range(100))
        (folder / name).write_text("\n".join(lines) + "\n")


def write_digits(folder, examples, noise):
    """Files in MNIST's format: so many examples to train with, and 24 to test with."""
    for name, count in (("train", examples), ("t10k", 24)):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 0x803, count, 28, 28) + noise.randbytes(count * 28 * 28))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, count) + bytes(noise.choices(range(10), k=count)))


def execute(words, printed, limit=None, **options):
    """The exit code of a program, which is killed with all its processes after `limit` seconds."""
    with open(printed, "ab") as file:
        try:
            job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True, **options)
        except OSError as error:
            raise Failure(str(error)) from None
    try:
        return job.wait(limit)
    except subprocess.TimeoutExpired:
        raise Failure(f"killed after {limit:g} s") from None
    finally:
        if job.poll() is None:
            end(job)


def end(job, first=signal.SIGTERM):
    """First as a user would. Ranks have process groups of their own, but mpirun's session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, first)
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(10)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(name)) == job.pid:
                os.kill(int(name), signal.SIGKILL)
    job.wait()


def reason_in(printed):
    """The first line with an error, or else the last one that is more than a rule."""
    lines = [line for line in printed.read_text(errors="replace").splitlines() if line.strip("- ")]
    errors = [line for line in lines if re.search("error:|CMake Error", line)]
    return [*errors[:1], *lines[-1:], "it printed nothing"][0]


def results(out, steps):
    """A hash of each array of the snapshot after so many steps, and the log without times."""
    found = {}
    try:
        with zipfile.ZipFile(out / f"snapshot_iter_{steps}") as snapshot:
            for name in snapshot.namelist():
                if name.startswith((*SAVED, AVERAGES)):
                    found[name] = hashlib.sha256(snapshot.read(name)).hexdigest()
        for number, entry in enumerate(json.loads((out / "log").read_text()), start=1):
            found |= {f"log {number}: {key}": entry[key] for key in entry if "time" not in key}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise Failure(f"results: {error}") from None
    for what in (*SAVED, "log"):
        if not any(name.startswith(what) for name in found):
            raise Failure(f"results: no {what} in {out}")
    return found
