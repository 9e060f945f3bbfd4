"""Wrong data, outputs that cannot be written, memory and devices that are not there."""
import shutil
import struct
import time
import zlib

from jobs import check, wait_for
from registry import case
from training import (Settings, digits, expect_equal, job_of, new_folder, program, train_mnist,
                      undisturbed, within)


def copy_of_digits():
    return shutil.copytree(digits(), new_folder() / "data")


@case(20, "a data file is truncated, has a wrong magic number, is missing",
      "exit code 65 or 66 with path, expected and found, before the first step, within 5 s", runs=3)
def wrong_data(place, run):
    data = copy_of_digits()
    file = data / "train-images-idx3-ubyte"
    contents = file.read_bytes()
    if run % 3 == 0:
        file.write_bytes(contents[:-1])
    elif run % 3 == 1:
        file.write_bytes(b"\0\0\0\0" + contents[4:])
    else:
        file.unlink()
    with job_of(place.mpirun(train_mnist(new_folder() / "result", data=data))) as job:
        job.expect_code(66 if run % 3 == 2 else 65)
        job.expect_said(str(data))
        return within(job.gone(job.start, 60), 5)


def png(shade, side=32):
    """A grey image."""
    def chunk(kind, contents):
        checksum = zlib.crc32(kind + contents)
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", checksum)
    rows = (b"\0" + bytes([shade]) * side) * side
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def with_copy_on_node2(words, data, copy):
    """Ranks of node 2 see their copy in place of the folder."""
    script = f'[ "$OMPI_COMM_WORLD_RANK" -lt 2 ] || mount --bind {copy} {data}; exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "sh", *words]


@case("20b", "images are missing, or cut short, on node 2 alone (train_imagenet, a copy on each "
      "node)", "exit code 65 or 66, a file and the host are named, within 5 s", runs=2,
      nodes=(2,))
def unlike_nodes(place, run):
    data, copy = new_folder() / "data", new_folder() / "copy"
    for part in ("train", "val"):
        for label, shade in (("dark", 30), ("light", 220)):
            (data / part / label).mkdir(parents=True)
            for number in range(16):
                (data / part / label / f"{number}.png").write_bytes(png(shade + number))
    if run % 2 == 0:
        copy.mkdir()
    else:
        shutil.copytree(data, copy)
        for image in copy.rglob("*.png"):
            image.write_bytes(image.read_bytes()[:60])
    words = [program("train_imagenet"), "--data", data, "--arch", "nin", "--out",
             new_folder() / "result", "--batchsize", 2, "--epoch", 1]
    with job_of(place.mpirun(with_copy_on_node2(words, data, copy))) as job:
        job.expect_code(65, 66)
        lines = [line for line in job.errors().splitlines() if str(data) in line]
        check(any("on node2" in line for line in lines),
              f"no line names a file on node2: {job.last_words()}")
        return within(job.gone(job.start, 60), 5)


@case("20c", "the data file is missing, or another one, on node 2 alone (train_mnist)",
      "rank 0 alone reads it: the run goes on, its result has the same bits", runs=2, nodes=(2,),
      seconds=10)
def data_of_rank_0(place, run):
    flags = ("--max-iterations", 100)
    copy = new_folder() / "copy"
    if run % 2 == 0:
        copy.mkdir()
    else:
        shutil.copytree(digits(train=600), copy)
    out = new_folder() / "result"
    words = train_mnist(out, *flags)
    with job_of(place.mpirun(with_copy_on_node2(words, digits(), copy))) as job:
        job.expect_code(0)
    expect_equal(out, undisturbed(place, *flags)[0])
    return "same bits"


@case(25, "a rank has no memory left (a limit on its address space)",
      "an error that names the rank, within 20 s", seconds=8)
def out_of_memory(place, run):
    out = new_folder() / "result"
    # A rank takes 0.4 GB to start, and 1.1 GB with two layers of 4,000 units.
    limited = ["sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" != 2 ] || ulimit -v 700000; exec "$@"', "sh"]
    words = [str(word) for word in train_mnist(out, unit=4000)]
    with job_of(place.mpirun([*limited, *words])) as job:
        job.expect_failure()
        lines = [line for line in job.errors().splitlines() if "memory" in line]
        check(any("rank 2" in line and place.host(2) in line for line in lines),
              f"no line about memory on rank 2: {job.last_words()}")
        return within(job.gone(job.start, 60), 20)


SIMULATED_GPU = ("tests/support/libfake_gpu_library.so", "tests/tensor/fake_driver")


@case(26, "--gpu on a machine without one; on nodes with one GPU each (simulated)",
      "exit code 69 or 78 with what to do, within 5 s", runs=2)
def no_gpu(place, run):
    words, code, advice = train_mnist(new_folder() / "result", "--gpu"), 69, "compute on CPUs"
    if run % 2 == 1:
        library, driver = (Settings.build / name for name in SIMULATED_GPU)
        check(library.exists() and driver.exists(), f"{library} is not built")
        words = ["env", f"TASUKI_CUDA_LIBRARY={library}", f"LD_LIBRARY_PATH={driver}",
                 "FAKE_CUDA_DEVICES=1", *words]
        code, advice = 78, "--share-gpu puts several ranks on one GPU"
    with job_of(place.mpirun(words)) as job:
        job.expect_code(code)
        job.expect_said("--gpu", advice)
        return within(job.gone(job.start, 60), 5)


@case(28, "the output folder cannot be written; nobody reads the output (| head -1)",
      "exit code 73 with the path; mpirun ends the job as a whole", runs=2)
def no_output(place, run):
    if run % 2 == 0:
        with job_of(place.mpirun(train_mnist("/proc/nowhere"))) as job:
            job.expect_code(73)
            job.expect_said("/proc/nowhere")
        return "73"
    words = place.mpirun(train_mnist(new_folder() / "result", "--epoch", 100_000))
    with job_of(["bash", "-c", '"$@" | head -1; exit "${PIPESTATUS[0]}"', "bash", *words]) as job:
        job.expect_failure()
        job.gone(time.monotonic(), 5)
    return "nothing left"


@case("28b", "nobody reads the output of tasuki-run (| head -1)",
      "the job ends within 5 s, without a restart", quick=(1,), seconds=5)
def no_reader(place, run):
    out = new_folder() / "result"
    words = place.supervised(program("tasuki-run"), [], train_mnist(out, "--epoch", 100_000))
    with job_of(["bash", "-c", '"$@" | head -1; exit "${PIPESTATUS[0]}"', "bash", *words]) as job:
        wait_for(job.out.read_text, 40, "the first line")
        since = time.monotonic()
        job.expect_failure()
        figure = within(job.gone(since, 30), 5)
        check("restart" not in job.errors(), f"restarted: {job.last_words()}")
    return figure
