"""Wrong data, outputs that cannot be written, memory and devices that are not there."""
import shutil
import struct
import time
import zlib

from jobs import check
from registry import case
from training import digits, job_of, new_folder, program, train_mnist, within


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


@case("20b", "images are missing, or cut short, on node 2 alone (train_imagenet, a copy on each node)",
      "exit code 65 or 66, a file and the host are named, within 15 s", runs=2,
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
    # Ranks of node 2 see their copy in place of the folder.
    script = f'[ "$OMPI_COMM_WORLD_RANK" -lt 2 ] || mount --bind {copy} {data}; exec "$@"'
    with job_of(place.mpirun(["unshare", "-m", "sh", "-c", script, "sh", *words])) as job:
        job.expect_code(65, 66)
        lines = [line for line in job.errors().splitlines() if str(data) in line]
        check(any("on node2" in line for line in lines),
              f"no line names a file on node2: {job.last_words()}")
        return within(job.gone(job.start, 60), 15)


@case(25, "a rank has no memory left (a limit on its address space)",
      "an error that names the rank, within 20 s")
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


@case(26, "--gpu on a machine without one", "exit code 69 with what to do, within 5 s")
def no_gpu(place, run):
    with job_of(place.mpirun(train_mnist(new_folder() / "result", "--gpu"))) as job:
        job.expect_code(69)
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
      "the job ends within 5 s, without a restart")
def no_reader(place, run):
    out = new_folder() / "result"
    words = place.supervised(program("tasuki-run"), [], train_mnist(out, "--epoch", 100_000))
    with job_of(["bash", "-c", '"$@" | head -1; exit "${PIPESTATUS[0]}"', "bash", *words]) as job:
        job.expect_failure()
        figure = within(job.gone(time.monotonic(), 30), 5)
        check("restart" not in job.errors(), f"restarted: {job.last_words()}")
    return figure
