"""Ten minutes of faults at random moments, and the part of the time in which the job got on."""
import collections
import os
import random
import re
import shutil
import signal
import time

from jobs import check, wait_for
from places import cut, mend
from registry import case
from training import (checkpoints, expect_equal, fill, run_calmly, small_disk,
                      supervised, train_mnist)

# Of a link and of a full disk; at least one checkpoint is due in them.
FAULT_SECONDS = 5
# An entry of the log for each epoch would fill the disk in ten minutes.
SAVING = ("--checkpoint-every", "2s", "--log-every", 1000)


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
        restarts = self.restarts()
        getattr(self, kind)()
        if kind in ("kill", "stop"):  # it has met a rank
            wait_for(lambda: self.restarts() > restarts or self.job.has_ended(), 60,
                     f"a restart after a {kind}")
        self.counts[kind] += 1
        time.sleep(1)  # what was under way then may still be saved
        self.old = self.saved()

    def saved(self):
        """The iteration of the newest checkpoint; 0 without one."""
        newest = checkpoints(self.out)[-1:]
        return int(newest[0].name.split("_")[1]) if newest else 0

    def restarts(self):
        """As tasuki-run says them: its log goes with the output folder."""
        return len(re.findall(r"(?m)^tasuki-run: .*; restart \d+ of \d+ ", self.job.errors()))

    def costs(self, end, iterations, step_seconds):
        """{kind: seconds}: the time from each event to the next one, less what an undisturbed run
        takes for the iterations in between. All together are the time that was lost."""
        costs = collections.Counter()
        marks = [*self.marks, ("", end, iterations)]
        for (kind, since, first), (_, until, last) in zip(marks, marks[1:]):
            costs[kind] += until - since - (last - first) * step_seconds
        return costs

    def kill(self):
        self.job.rank(random.randrange(4)).send(signal.SIGKILL)

    def stop(self):
        self.job.rank(random.randrange(4)).send(signal.SIGSTOP)

    def cut(self):
        cut(self.job)
        time.sleep(FAULT_SECONDS)
        mend(self.job)

    def full(self):
        """All the time: what the job removes makes no room."""
        filler = self.disk / "filler"
        end = time.monotonic() + FAULT_SECONDS
        while time.monotonic() < end:
            fill(filler)
            time.sleep(0.05)
        filler.unlink()

    def remove(self):
        """The output folder, with all that is in it."""
        def is_removed():
            shutil.rmtree(self.out, ignore_errors=True)  # the job may be writing there
            return not self.out.exists()
        wait_for(is_removed, 10, f"removal of {self.out}")


def chaos_plan(minutes, iterations):
    """[(iteration, what happens then)]: in ten minutes ten kills, three stops, two cut links, a full
    disk and a removed folder, in some order; in fewer minutes fewer of them, but one of each.
    Moments are iterations, as a machine with other work is not as fast as it was before."""
    counts = {"kill": 10, "stop": 3, "cut": 2, "full": 1, "remove": 1}
    kinds = [kind for kind, count in counts.items()
             for _ in range(max(1, round(count * minutes / 10)))]
    random.shuffle(kinds)
    moments = sorted(random.randrange(iterations * 3 // 100, iterations * 9 // 10) for _ in kinds)
    return list(zip(moments, kinds))


def calm_run(place, iterations):
    """On a disk like that of the disturbed run."""
    with small_disk(64) as disk:
        return run_calmly(place, disk / "calm", *SAVING, "--epoch", 100_000, "--max-iterations",
                          iterations)


@case(30, "ten minutes with ten kills, three SIGSTOPs, two links that are cut for 5 s, a disk that "
      "is full for 5 s and a removed output folder at random moments, under tasuki-run",
      "ends by itself with the bits of an undisturbed run, goodput (the time of the same run "
      "without faults and without tasuki-run, the shorter of those measured before and, with a "
      "fifth of the steps, after / the time taken) at least 70 %",
      nodes=(2,), seconds=1200)
def chaos(place, run):
    minutes = float(os.environ.get("TASUKI_CHAOS_MINUTES", 10))
    trial = calm_run(place, 10_000)
    iterations = int(trial.iterations + (0.85 * minutes * 60 - trial.seconds) / trial.step_seconds)
    before = calm_run(place, iterations)
    with small_disk(64) as disk:
        out = disk / "result"
        words = train_mnist(out, *SAVING, "--epoch", 100_000, "--max-iterations", iterations)
        # Never with fewer ranks: sums over other ranks have other bits.
        with supervised(place, words, 60 * minutes * 4, "--max-restarts", 10) as job:
            chaos_of_job = Chaos(job, disk, out)
            for moment, kind in chaos_plan(minutes, iterations):
                chaos_of_job.happens(kind, moment, 60 * minutes)
            job.expect_code(0)
            end = time.monotonic()
        job.expect_said("No space left on device")
        expect_equal(out, before.arrays)
    # What else the machine did must not make the run without faults look long.
    after = calm_run(place, max(trial.iterations, iterations // 5))
    calm = [run.seconds_of(iterations) for run in (before, after)]
    goodput = min(calm) / (end - job.start)
    costs = chaos_of_job.costs(end, iterations, min(before.step_seconds, after.step_seconds))
    lost = ", ".join(f"{count} x {kind} {costs[kind]:.0f} s"
                     for kind, count in sorted(chaos_of_job.counts.items()))
    figures = (f"goodput {goodput:.0%} of {end - job.start:.0f} s (without faults {calm[0]:.0f} s "
               f"before, {calm[1]:.0f} s after), {chaos_of_job.restarts()} restarts; lost by "
               f"{lost}, start {costs['start']:.0f} s")
    check(0.7 <= goodput <= 1, figures)
    return figures
