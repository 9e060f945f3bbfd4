"""Jobs under tasuki-run, which restarts them from their checkpoints."""
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

from jobs import check, wait_for
from places import cut, mend
from registry import case
from training import (expect_equal, generations, new_folder, resumptions, small_disk, supervised,
                      train_mnist, undisturbed)


def incidents(out):
    """The restarts that tasuki-run has written down."""
    file = out / "incidents.jsonl"
    check(file.exists(), f"no {file}")
    return [json.loads(line) for line in file.read_text().splitlines()]


@case(27, "the program fails at every start, --max-restarts 3",
      "three restarts with growing pauses that are shown, then the program's exit code")
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


STEPS = 1500
WORK = ("--epoch", 100_000, "--max-iterations", STEPS, "--print-every", 1)


@case("30a", "SIGKILL of a random rank at a random moment, under tasuki-run with "
      "--checkpoint-every 20it",
      "the job ends by itself with the bits of an undisturbed run, 20 steps at most are done twice",
      runs=50, nodes=(1,))
def kill_and_restart(place, run):
    expected, _ = undisturbed(place, *WORK)
    out = new_folder() / "result"
    with supervised(place, train_mnist(out, *WORK), 180) as job:
        moment = random.randrange(1, STEPS - 100)
        wait_for(lambda: f"\nstep {moment}," in job.text(), 90, f"step {moment}")
        job.rank(random.randrange(4)).send(signal.SIGKILL)
        job.expect_code(0)
        # The first banner's lines, and those of each restart.
        starts = job.text().split("\nNum process (COMM_WORLD): ")[1:]
    expect_equal(out, expected)
    check(len(starts) == 2, f"{len(starts)} starts, expected 2")
    last = max(int(step) for step in re.findall(r"(?m)^step (\d+),", starts[0]))
    (_, iteration), = resumptions(starts[1]) or [(None, 0)]
    twice = last - iteration
    check(moment <= last and 0 <= twice <= 20,
          f"killed after step {last} (chosen: {moment}), continued after {iteration}")
    shutil.rmtree(out)
    return f"{twice} steps twice"


class Chaos:
    """What happens to a job at random moments; counts[kind] times so far."""

    def __init__(self, job, disk, out):
        self.job, self.disk, self.out = job, disk, out
        self.counts = collections.Counter()
        self.seen = None

    def happens(self, kind):
        """After the job has saved something since the time before, so that it trains."""
        def has_saved():
            return self.job.has_ended() or (self.saved() or self.seen) != self.seen
        wait_for(has_saved, 120, f"a checkpoint after {dict(self.counts)}")
        check(not self.job.has_ended(), f"the job ended after {dict(self.counts)}, before the next "
                                        f"{kind}: {self.job.last_words()}")
        getattr(self, kind)()
        self.counts[kind] += 1
        self.seen = self.saved()

    def saved(self):
        """When the last checkpoint was saved."""
        try:
            return (self.out / "latest").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def kill(self):
        self.job.rank(random.randrange(4)).send(signal.SIGKILL)

    def stop(self):
        self.job.rank(random.randrange(4)).send(signal.SIGSTOP)

    def cut(self):
        cut(self.job)
        time.sleep(5)
        mend(self.job)

    def fill(self):
        filler = self.disk / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], check=False, capture_output=True)
        time.sleep(5)
        filler.unlink()

    def remove(self):
        for newest in generations(self.out)[-1:]:
            shutil.rmtree(newest, ignore_errors=True)


def chaos_plan(minutes):
    """In ten minutes ten kills, three stops, two cut links, a full disk and a removed checkpoint,
    in some order; in fewer minutes fewer of them, but one of each."""
    counts = {"kill": 10, "stop": 3, "cut": 2, "fill": 1, "remove": 1}
    kinds = [kind for kind, count in counts.items()
             for _ in range(max(1, round(count * minutes / 10)))]
    random.shuffle(kinds)
    moments = sorted(random.uniform(0.03, 0.65) * 60 * minutes for _ in kinds)
    return list(zip(moments, kinds))


@case(30, "ten minutes with ten kills, three SIGSTOPs, two cut links, a full disk and a removed "
      "checkpoint at random moments, under tasuki-run",
      "ends by itself with the bits of an undisturbed run, goodput (its time / the time taken) at "
      "least 70 %", nodes=(2,))
def chaos(place, run):
    minutes = float(os.environ.get("TASUKI_CHAOS_MINUTES", 10))
    trial = 1000
    _, trial_seconds = undisturbed(place, "--epoch", "100000", "--max-iterations", trial)
    iterations = int(0.72 * minutes * 60 / trial_seconds * trial)
    work = ("--epoch", "100000", "--max-iterations", iterations)
    expected, calm = undisturbed(place, *work)
    with small_disk(64) as disk:
        out = disk / "result"
        words = train_mnist(out, "--checkpoint-every", "2s", *work)
        # Never with fewer ranks: sums over other ranks have other bits.
        with supervised(place, words, 60 * minutes * 4, "--max-restarts", 10) as job:
            chaos_of_job = Chaos(job, disk, out)
            for moment, kind in chaos_plan(minutes):
                time.sleep(max(0, job.start + moment - time.monotonic()))
                chaos_of_job.happens(kind)
            job.expect_code(0)
            taken = time.monotonic() - job.start
        expect_equal(out, expected)
        restarts = sum(each["event"] == "restart" for each in incidents(out))
    goodput = calm / taken
    check(goodput >= 0.7, f"goodput {goodput:.0%} ({calm:.0f} s undisturbed, {taken:.0f} s taken)")
    faults = ", ".join(f"{count} x {kind}" for kind, count in sorted(chaos_of_job.counts.items()))
    return f"goodput {goodput:.0%}, {faults}, {restarts} restarts"
