"""A job that is asked to stop saves first, and continues where it was."""
import random
import signal
import time

from jobs import check
from registry import case
from training import (checkpoints, expect_equal, expect_loadable, job_of, resumptions,
                      train_mnist, training, undisturbed, within, work)

@case(12, "SIGUSR1 to mpirun at a random moment",
      "all ranks save after the same step, exit code 79; the resumed run has the bits of one "
      "without a stop", runs=5, quick=(1,), seconds=20)
def asked_to_stop(place, run):
    with training(place) as job:
        time.sleep(random.uniform(0, 0.5))
        moment = time.monotonic()
        job.launcher().send(signal.SIGUSR1)
        job.expect_code(79)
        figure = within(job.gone(moment, 60), 5)
    words = train_mnist(job.folder, "--resume", "auto", *work())
    with job_of(place.mpirun(words), 120) as job_again:
        job_again.expect_code(0)
    expect_equal(job.folder, undisturbed(place, *work())[0])
    return figure


@case(13, "Ctrl-C and SIGTERM to mpirun", "all gone in 2 s, no half checkpoint", runs=6, seconds=5)
def interrupted(place, run):
    with training(place) as job:
        time.sleep(random.uniform(0, 0.5))
        moment = time.monotonic()
        job.launcher().send(signal.SIGINT if run % 2 == 0 else signal.SIGTERM)
        job.expect_failure()
        figure = within(job.gone(moment, 60), 2)
    expect_loadable(job.folder)
    return figure


@case("13b", "Ctrl-C and SIGTERM to tasuki-run", "saved, exit code 79", runs=4, seconds=5)
def supervisor_interrupted(place, run):
    with training(place, supervisor=[]) as job:
        time.sleep(random.uniform(0, 0.5))
        moment = time.monotonic()
        job.launcher("tasuki-run").send(signal.SIGINT if run % 2 == 0 else signal.SIGTERM)
        job.expect_code(79)
        figure = within(job.gone(moment, 60), 5)
    check(checkpoints(job.folder), "nothing was saved")
    expect_loadable(job.folder)
    return figure


@case("13c", "--time-limit 12s, and a rank is killed before it, under tasuki-run",
      "restarted; saved 12 s after the start of tasuki-run, exit code 79", seconds=14)
def out_of_time(place, run):
    with training(place, "--time-limit", "12s", supervisor=[]) as job:
        job.rank(random.randrange(4)).send(signal.SIGKILL)
        job.expect_code(79)
        figure = within(job.gone(job.start, 60), 12 + 5)
        check(figure >= 12, f"it ended after {figure:.2f} s")
        check(resumptions(job.text()), f"it was not restarted: {job.last_words()}")
    expect_loadable(job.folder)
    return figure
