"""Jobs under tasuki-run, which restarts them from their checkpoints."""
import random
import re
import shutil
import signal

from jobs import check, wait_for
from registry import Most, case
from training import (expect_equal, new_folder, resumptions, supervised, train_mnist, undisturbed)


@case(27, "the program fails at every start, --max-restarts 3",
      "three restarts with growing pauses that are shown, then the program's exit code", seconds=13)
def fails_always(place, run):
    folder = new_folder()
    script = folder / "fails"
    script.write_text(f"#!/bin/sh\necho start >>'{folder}/starts'\nsleep 0.2\nkill -KILL $$\n")
    script.chmod(0o755)
    with supervised(place, [script], 60, "--max-restarts", 3) as job:
        job.expect_code(137)
    starts = len((folder / "starts").read_text().splitlines())
    check(starts == 4 * 4, f"{starts} processes were started, expected 4 times 4 ranks")
    return "3 restarts"


KILLS, STEPS = 10, 1500


def starts_in(text):
    """What each start of the job has printed, from its banner on."""
    return text.split("\nNum process (COMM_WORLD): ")[1:]


def last_step(text):
    return max((int(step) for step in re.findall(r"(?m)^step (\d+),", text)), default=0)


def continued_after(text):
    """The iteration from which a start has continued; 0: from the beginning."""
    return next((iteration for _, iteration in resumptions(text)), 0)


@case("30a", "SIGKILL of a random rank at ten random moments, under tasuki-run with "
      "--checkpoint-every 20it",
      "the job ends by itself with the bits of an undisturbed run, for each kill 20 steps at most "
      "are done twice", runs=5, nodes=(1,), seconds=30)
def kill_and_restart(place, run):
    work = ("--epoch", 100_000, "--max-iterations", STEPS, "--print-every", 1)
    expected, _ = undisturbed(place, *work)
    out = new_folder() / "result"
    # Some starts are killed before they have saved anything.
    flags = ("--max-restarts", KILLS)
    with supervised(place, train_mnist(out, *work), 300, *flags) as job:
        for kills in range(KILLS):
            def is_there(step=random.randrange(1, STEPS // KILLS - 20), start=kills):
                starts = starts_in(job.text())
                return len(starts) > start and last_step(starts[-1]) >= (
                    continued_after(starts[-1]) + step) or job.has_ended()
            wait_for(is_there, 90, f"the moment of kill {kills + 1}")
            check(not job.has_ended(), f"it ended after {kills} kills: {job.last_words()}")
            job.rank(random.randrange(4)).send(signal.SIGKILL)
        job.expect_code(0)
        starts = starts_in(job.text())
    expect_equal(out, expected)
    check(len(starts) == KILLS + 1, f"{len(starts)} starts after {KILLS} kills")
    twice = [max(0, last_step(killed) - continued_after(next_one))
             for killed, next_one in zip(starts, starts[1:])]
    check(max(twice) <= 20, f"steps done twice: {twice}")
    shutil.rmtree(out)
    return Most(max(twice), "steps done twice")
