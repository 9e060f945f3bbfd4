"""A rank ends: the job ends everywhere at once, and says which rank it was."""
import random
import signal
import time

from registry import case
from training import expect_loadable, job_of, new_folder, program, training, within


def faulty(place, moment, kind, rank=1, seconds=(), environment=None, limit=60):
    """faulty_training, whose rank fails on purpose; its folder gets the time of the fault."""
    folder = new_folder()
    job = job_of(place.mpirun([program("faulty_training"), rank, moment, kind, folder, *seconds]),
                 limit, environment)
    job.folder = folder
    return job


def gone_after_fault(job, seconds):
    since = float((job.folder / "time").read_text())
    return within(job.gone(since, 60), seconds)


@case(1, "rank 1 throws in the forward pass, the data loader, an extension, the evaluator",
      "exit code 70, one line with rank, host and cause, all gone in 3 s", runs=20, quick=(1, 2),
      seconds=1.5)
def throws(place, run):
    moment = ("forward", "loader", "extension", "evaluator")[run % 4]
    with faulty(place, moment, "throw") as job:
        job.expect_code(70)
        job.expect_named(1, place.host(1))
        job.expect_said(f"planted in {moment}")
        return gone_after_fault(job, 3)


@case(2, "SIGKILL of rank 1 at a random moment",
      "exit code 137 (seldom 255), all gone in 4 s, the newest checkpoint loads", runs=10, quick=(1, 2),
      seconds=5)
def killed(place, run):
    with training(place) as job:
        time.sleep(random.uniform(0, 1))
        moment = time.monotonic()
        job.rank(1).send(signal.SIGKILL)
        # If Open MPI on the other node meets the closed connection before the launcher tells it, it ends
        # the job itself, with this code and its own message.
        if job.expect_code(137, 255) == 255:
            job.expect_said("writev failed", "FATAL")
        figure = within(job.gone(moment, 60), 4)
    expect_loadable(job.folder)
    return figure


@case(3, "SIGSEGV, abort(), exit(0) and exit(3) on rank 1", "never exit code 0, all gone in 4 s",
      runs=8, seconds=2)
def dies(place, run):
    kind, codes = (("segv", [139]), ("abort", [134]), ("exit0", range(1, 256)),
                   ("exit3", [3]))[run % 4]
    with faulty(place, "forward", kind) as job:
        job.expect_code(*codes)
        return gone_after_fault(job, 4)


@case(4, "rank 1 returns from main early", "exit code 75 after TASUKI_END_SECONDS (2 s here), "
      "the rank is named", runs=4, seconds=4)
def returns_early(place, run):
    with faulty(place, "forward", "return0", environment={"TASUKI_END_SECONDS": "2"}) as job:
        job.expect_code(75)
        job.expect_named(1, place.host(1))
        return gone_after_fault(job, 4)
