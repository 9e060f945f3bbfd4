"""A real program to disturb, train_mnist on a small data set, and what it leaves behind."""
import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import tempfile
import time
import zipfile

from jobs import Job, check, wait_for
from places import ROOT


output_name = "output"  # in the folder of a run


class Settings:
    """Set once by run.py."""
    build = ROOT / "build"
    work = None  # a folder of this run
    patience = 1.0  # limits in seconds grow by this factor
    quick = False  # cases that try many things try a few


def work():
    """The flags of a training that is long enough to disturb it."""
    return ("--epoch", 100_000, "--max-iterations", 600 if Settings.quick else 3000)


def program(name):
    path = Settings.build / ("tests/fault" if name == "faulty_training" else "apps") / name
    check(path.exists(), f"{path} is not built")
    return path


def within(figure, seconds):
    """The figure, if it keeps the limit."""
    check(figure <= seconds * Settings.patience, f"took {figure:.2f} s, expected {seconds:g} s")
    return figure


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=Settings.work))


def idx(sizes, values):
    return struct.pack(f">{1 + len(sizes)}I", 0x800 + len(sizes), *sizes) + values


@functools.cache
def digits(train=4800, test=1200):
    """A folder with data in MNIST's format: each class has its own bright columns under noise."""
    folder = new_folder()
    noise = random.Random(7)
    for name, count in (("train", train), ("t10k", test)):
        labels = bytes(noise.randrange(10) for _ in range(count))
        rows = [bytes(230 if x // 3 == label % 9 else 20 * (label == 9) for x in range(28))
                for label in range(10)]
        pixels = bytearray().join(rows[label] * 28 for label in labels)
        for _ in range(len(pixels) // 8):
            pixels[noise.randrange(len(pixels))] = noise.randrange(256)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx([count, 28, 28], bytes(pixels)))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx([count], labels))
    return folder


def train_mnist(out, *flags, data=None, unit=200):
    """The words of the program: 24 iterations an epoch, a checkpoint every 20 iterations, which one
    process can continue from as well."""
    return [program("train_mnist"), "--data", data or digits(), "--unit", unit, "--shards", 4,
            "--global-batch", 200, "--checkpoint-every", "20it", "--out", out, *flags]


def job_of(words, limit=60, environment=None):
    programs = ["train_mnist", "train_imagenet", "faulty_training"]
    return Job(words, Settings.work / output_name, programs, environment, limit)


def supervised(place, words, limit, *flags):
    """A program under tasuki-run."""
    return job_of(place.supervised(program("tasuki-run"), flags, words), limit)


@contextlib.contextmanager
def training(place, *flags, supervisor=None, limit=90):
    """A training that goes on for long, after its first checkpoint; `supervisor`: the flags of
    tasuki-run, if it is to start it."""
    out = new_folder() / "result"
    words = train_mnist(out, "--epoch", 100_000, "--log-every", 5, *flags)
    started = (job_of(place.mpirun(words), limit) if supervisor is None
               else supervised(place, words, limit, *supervisor))
    with started as job:
        job.folder = out
        wait_for(lambda: checkpoints(out) or job.has_ended(), 40, "the first checkpoint")
        check(not job.has_ended(), f"it ended: {job.last_words()}")
        yield job


def digests(file, prefixes=("updater/model:main/", "updater/optimizer:main/")):
    """A hash of each array of a snapshot or of a checkpoint's state.npz that begins so."""
    with zipfile.ZipFile(file) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()
                if name.startswith(tuple(prefixes))}


def iteration_of(snapshot):
    return int(snapshot.name.split("_")[-1])


def final_snapshot(out):
    found = sorted(out.glob("snapshot_iter_*"), key=iteration_of)
    check(found, f"no snapshot in {out}")
    return found[-1]


@dataclasses.dataclass
class CalmRun:
    """A training that nothing happened to."""
    arrays: dict  # at the end: digests()
    seconds: float  # from its start until all of it had ended
    iterations: int
    step_seconds: float  # of an iteration, with what belongs to each: saves, evaluations

    def seconds_of(self, iterations):
        """What so many would have taken, with one start and one end."""
        return self.seconds + (iterations - self.iterations) * self.step_seconds


def run_calmly(place, out, *flags, np=4):
    with job_of(place.mpirun(train_mnist(out, *flags), np=np), 900) as job:
        job.expect_code(0)
        seconds = time.monotonic() - job.start
    last = json.loads((out / "log").read_text())[-1]
    final = final_snapshot(out)
    return CalmRun(digests(final), seconds, iteration_of(final),
                   last["elapsed_time"] / last["iteration"])


@functools.cache
def undisturbed(place, *flags, np=4):
    """(arrays at the end, seconds) of a training that nothing happens to."""
    calm = run_calmly(place, new_folder() / "calm", *flags, np=np)
    return calm.arrays, calm.seconds


def expect_equal(out, expected):
    found = digests(final_snapshot(out))
    differing = [name for name in expected if found.get(name) != expected[name]]
    check(found.keys() == expected.keys() and not differing,
          f"arrays differ from an undisturbed run: {', '.join(differing[:3]) or 'other names'}")


def checkpoints(out):
    """Complete checkpoints, the newest last."""
    def order(path):
        return [int(part) for part in re.findall(r"\d+", path.name)]
    return sorted((path for path in (out / "checkpoints").glob("iter_*")
                   if path.suffix != ".tmp"), key=order)


def resumed(out, *flags):
    """What one process says that continues from `out` without training."""
    with job_of(train_mnist(out, "--resume", "auto", "--dry-run", *flags)) as job:
        code = job.wait()
        return code, job.text()


# Of the warning about each state that is passed over.
PASSED_OVER = "using the one before it"


def resumptions(text):
    """(path, iteration) of what each start continued from, by its banner."""
    return [(pathlib.Path(path), int(iteration)) for path, iteration in
            re.findall(r"(?m)^Resumed: (.+), epoch \d+, iteration (\d+)$", text)]


def expect_resumed(text, path):
    found = [str(each) for each, _ in resumptions(text)]
    check(found == [str(path)], f"resumed from {', '.join(found) or 'nothing'}, expected {path}: "
                                f"{text[-300:]}")


def expect_loadable(out):
    """There is a checkpoint, and the newest one can be continued from."""
    check(checkpoints(out), f"no checkpoint in {out}")
    newest = checkpoints(out)[-1]
    code, text = resumed(out)
    check(code == 0 and PASSED_OVER not in text,
          f"{newest.name} does not load: exit code {code}: {text[-300:]}")
    expect_resumed(text, newest)


@contextlib.contextmanager
def small_disk(megabytes):
    """A file system of its own of this size."""
    folder = new_folder()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m"]
    try:
        subprocess.run(["mount", *options, "tmpfs", folder], check=True)
        yield folder
    finally:
        if folder.is_mount():
            subprocess.run(["umount", "-l", folder], check=True)


def fill(file):
    """Until its disk is full; again and again, if others make room."""
    with contextlib.suppress(OSError), open(file, "ab", buffering=0) as out:
        for size in (1 << 20, 1):  # in the end byte by byte
            with contextlib.suppress(OSError):
                while out.write(bytes(size)):
                    pass


def clean_up(keep_output):
    """Leaves no process, mount or file of this run, wherever it was interrupted; except what jobs
    have written to the terminal, if asked to."""
    for job in Job.running:
        job.kill_all()
    for folder in Settings.work.glob("*"):
        if folder.is_mount():
            subprocess.run(["umount", "-l", folder], check=False)
    for folder in [Settings.work] if not keep_output else Settings.work.glob("*"):
        if folder.name != output_name:
            shutil.rmtree(folder, ignore_errors=True)
