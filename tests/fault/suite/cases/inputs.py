"""Wrong data, outputs that cannot be written, memory and devices that are not there."""
import shutil
import time

from jobs import check
from registry import case
from training import digits, job_of, new_folder, train_mnist, within


def copy_of_digits():
    return shutil.copytree(digits(), new_folder() / "data")


@case(20, "a data file is truncated, has a wrong magic number, is missing",
      "exit code 65 or 66 with path, expected and found, before the first step, within 5 s", runs=3)
def wrong_data(place, run):
    data = copy_of_digits()
    file = data / "train-images-idx3-ubyte"
    contents = file.read_bytes()
    if run == 0:
        file.write_bytes(contents[:-1])
    elif run == 1:
        file.write_bytes(b"\0\0\0\0" + contents[4:])
    else:
        file.unlink()
    with job_of(place.mpirun(train_mnist(new_folder() / "result", data=data))) as job:
        job.expect_code(66 if run == 2 else 65)
        job.expect_said(str(data))
        return within(job.gone(job.start, 60), 5)


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
    if run == 0:
        with job_of(place.mpirun(train_mnist("/proc/nowhere"))) as job:
            job.expect_code(73)
            job.expect_said("/proc/nowhere")
        return "73"
    words = place.mpirun(train_mnist(new_folder() / "result", "--epoch", 100_000))
    with job_of(["bash", "-c", '"$@" | head -1; exit "${PIPESTATUS[0]}"', "bash", *words]) as job:
        job.expect_failure()
        job.gone(time.monotonic(), 5)
    return "nothing left"
