"""Jobs under tasuki-run, which restarts them from their checkpoints."""
import collections
import json
import os
import random
import re
import shutil
import signal
import time

from jobs import check, wait_for
from places import cut, mend
from registry import Most, case
from training import (expect_equal, fill, generations, new_folder, resumptions, small_disk,
                      supervised, train_mnist, undisturbed)


def incidents(out):
    """The restarts that tasuki-run has written down."""
    file = out / "incidents.jsonl"
    check(file.exists(), f"no {file}")
    return [json.loads(line) for line in file.read_text().splitlines()]


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


class Chaos:
    """What happens to a job at random moments, and the time that it costs."""

    def __init__(self, job, disk, out):
        self.job, self.disk, self.out = job, disk, out
        self.counts = collections.Counter()
        # (what happened, when it happened, the iteration that was saved then)
        self.marks = [("start", job.start, 0)]
        self.old = 0  # saved when it had happened

    def happens(self, kind, moment, longest):
        """Once the job has saved this iteration, and something since the time before, so that it
        trains; within `longest` seconds."""
        wait_for(lambda: self.job.has_ended() or self.saved() > max(self.old, moment), longest,
                 f"a checkpoint after iteration {moment} and {dict(self.counts)}")
        check(not self.job.has_ended(), f"the job ended after {dict(self.counts)}, before the next "
                                        f"{kind}: {self.job.last_words()}")
        # At this moment the job is where the checkpoint is.
        self.marks.append((kind, time.monotonic(), self.saved()))
        getattr(self, kind)()
        self.counts[kind] += 1
        time.sleep(1)  # what was under way then may still be saved
        self.old = self.saved()

    def saved(self):
        """The iteration of the newest checkpoint; 0 without one."""
        newest = generations(self.out)[-1:]
        return int(newest[0].name.split("_")[1]) if newest else 0

    def costs(self, end, iterations, calm_seconds):
        """{kind: seconds}: the time from each event to the next one, less what an undisturbed run
        takes for the iterations in between. All together are the time that was lost."""
        costs = collections.Counter()
        marks = [*self.marks, ("", end, iterations)]
        for (kind, since, first), (_, until, last) in zip(marks, marks[1:]):
            costs[kind] += until - since - (last - first) * calm_seconds / iterations
        return costs

    def kill(self):
        self.job.rank(random.randrange(4)).send(signal.SIGKILL)

    def stop(self):
        self.job.rank(random.randrange(4)).send(signal.SIGSTOP)

    def cut(self):
        cut(self.job)
        time.sleep(5)
        mend(self.job)

    def full(self):
        filler = self.disk / "filler"
        fill(filler)
        time.sleep(5)
        filler.unlink()

    def remove(self):
        for newest in generations(self.out)[-1:]:
            shutil.rmtree(newest, ignore_errors=True)


def chaos_plan(minutes, iterations):
    """[(iteration, what happens then)]: in ten minutes ten kills, three stops, two cut links, a full
    disk and a removed checkpoint, in some order; in fewer minutes fewer of them, but one of each.
    Moments are iterations, as a machine with other work is not as fast as it was before."""
    counts = {"kill": 10, "stop": 3, "cut": 2, "full": 1, "remove": 1}
    kinds = [kind for kind, count in counts.items()
             for _ in range(max(1, round(count * minutes / 10)))]
    random.shuffle(kinds)
    moments = sorted(random.randrange(iterations * 3 // 100, iterations * 9 // 10) for _ in kinds)
    return list(zip(moments, kinds))


@case(30, "ten minutes with ten kills, three SIGSTOPs, two links that are cut for 5 s, a disk that "
      "is full for 5 s and a removed checkpoint at random moments, under tasuki-run",
      "ends by itself with the bits of an undisturbed run, goodput (the time of the same run "
      "without faults and without tasuki-run, measured once before / the time taken) at least 70 %",
      nodes=(2,), seconds=1150)
def chaos(place, run):
    minutes = float(os.environ.get("TASUKI_CHAOS_MINUTES", 10))
    trial = 1000
    saving = ("--checkpoint-every", "2s")
    _, trial_seconds = undisturbed(place, *saving, "--epoch", 100_000, "--max-iterations", trial)
    iterations = int(0.72 * minutes * 60 / trial_seconds * trial)
    work = (*saving, "--epoch", 100_000, "--max-iterations", iterations)
    expected, calm = undisturbed(place, *work)
    with small_disk(64) as disk:
        out = disk / "result"
        # Never with fewer ranks: sums over other ranks have other bits.
        with supervised(place, train_mnist(out, *work), 60 * minutes * 4, "--max-restarts",
                        10) as job:
            chaos_of_job = Chaos(job, disk, out)
            for moment, kind in chaos_plan(minutes, iterations):
                chaos_of_job.happens(kind, moment, 60 * minutes)
            job.expect_code(0)
            end = time.monotonic()
        expect_equal(out, expected)
        restarts = sum(each["event"] == "restart" for each in incidents(out))
    goodput = calm / (end - job.start)
    costs = chaos_of_job.costs(end, iterations, calm)
    lost = ", ".join(f"{count} x {kind} {costs[kind]:.0f} s"
                     for kind, count in sorted(chaos_of_job.counts.items()))
    figures = (f"goodput {goodput:.0%} of {end - job.start:.0f} s, {restarts} restarts; lost by "
               f"{lost}, start {costs['start']:.0f} s")
    check(goodput >= 0.7, figures)
    return figures
