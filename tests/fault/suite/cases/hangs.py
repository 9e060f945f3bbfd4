"""A rank is alive and stuck: the watchdog ends the job and names it. Slow ranks are left alone."""
import random
import re
import signal
import time

from cases.endings import faulty, gone_after_fault
from jobs import check, wait_for
from registry import case
from training import Settings, expect_loadable, training, within

STALL = 3  # seconds


@case(5, "SIGSTOP of a rank; an endless loop in its loader",
      "exit code 75, that rank is named with what it was doing, all gone 2 s after the limit (3 s "
      "here)", runs=20, quick=(1,), seconds=5)
def stuck(place, run):
    rank = run % 4
    kind, said = (("stop", "gives no sign of life"), ("loop", "is loading a batch"))[run // 4 % 2]
    with faulty(place, "loader", kind, rank, [STALL]) as job:
        job.expect_code(75)
        job.expect_said(f"rank {rank} on {place.host(rank)} {said}")
        return gone_after_fault(job, STALL + 2)


@case("5b", "SIGSTOP of a rank of train_mnist, default settings",
      "exit code 75, that rank is named, all gone in 20 s, the newest checkpoint loads", runs=2,
      seconds=22)
def stopped(place, run):
    rank = random.randrange(4)
    with training(place) as job:
        moment = time.monotonic()
        job.rank(rank).send(signal.SIGSTOP)
        job.expect_code(75)
        job.expect_said(f"rank {rank} on {place.host(rank)} gives no sign of life")
        figure = within(job.gone(moment, 60), 20)
    expect_loadable(job.folder)
    return figure


@case(6, "a rank that takes 0.8 x the limit for each of 100 iterations",
      "the job goes on to its end, and the warnings after half the limit name the rank", seconds=90)
def slow(place, run):
    limit = Settings.patience  # 1 s on a quiet machine
    with faulty(place, "loader", "late", seconds=[limit], limit=150 * limit) as job:
        job.expect_code(0)
        check("error: " not in job.errors(), f"an alarm: {job.last_words()}")
        warning = r"nothing has moved for [^\n]* s: (rank \d) on (\S+) is loading a batch"
        warnings = re.findall(warning, job.errors())
        check(warnings and set(warnings) == {("rank 1", place.host(1))},
              f"ranks that are named as slow: {sorted(set(warnings))}")
        return "100 iterations, 0 alarms"


@case(7, "a rank leaves out a collective",
      "exit code 75, the operation is named, all gone 2 s after the limit (3 s here)", runs=4,
      seconds=5)
def leaves_out(place, run):
    with faulty(place, "extension", "skip", rank=3, seconds=[STALL]) as job:
        job.expect_code(75)
        job.expect_said("sum_gradients")
        return gone_after_fault(job, STALL + 2)


@case("7b", "a rank leaves out a collective, calls two in the other order, gives one another size; "
      "with TASUKI_CHECK_COLLECTIVES=1",
      "exit code 76 in the same iteration, with what that rank calls and what the others call, all "
      "gone in 1 s", runs=6, seconds=1.5)
def other_calls(place, run):
    kind, own, usual = (("skip", "sum_gradients of ", "barrier"),
                        ("order", "allreduce of 10 float32 (sum)", "barrier"),
                        ("size", "allreduce of 11 float32 (sum)", "allreduce of 10 float32 (sum)")
                        )[run % 3]
    rank = 1 + run % 3
    with faulty(place, "extension", kind, rank, [60],
                environment={"TASUKI_CHECK_COLLECTIVES": "1"}) as job:
        job.expect_code(76)
        job.expect_said(f"rank {rank} on {place.host(rank)} calls {own}",
                        f" where the other 3 call {usual};")
        return gone_after_fault(job, 1)


@case("5c", "2,000 SIGCONT at each rank while it trains", "0 of 50 runs die", runs=50, seconds=5)
def continued(place, run):
    with training(place) as job:
        ranks = [job.rank(rank) for rank in range(4)]
        for _ in range(2000):
            for rank in ranks:
                rank.send(signal.SIGCONT)
        check(not job.has_ended(), f"it died: {job.last_words()}")
        job.launcher().send(signal.SIGUSR1)
        job.expect_code(79)
    return "alive"


def state_table(text):
    """{rank: host} of each table of states in `text`."""
    tables, rows = [], None
    for line in text.splitlines():
        words = line.split()
        if words[:3] == ["rank", "host", "epoch"]:
            tables.append(rows := {})
        elif rows is not None and words and words[0].isdigit():
            rows[int(words[0])] = words[1]
        else:
            rows = None
    return tables


@case("5d", "SIGUSR2 to mpirun while a rank is stopped", "one table with all ranks and their hosts; "
      "the rank is let go, and the run goes on", runs=2, seconds=5)
def asked_for_states(place, run):
    hosts = {rank: place.host(rank) for rank in range(4)}
    with training(place) as job:
        stopped_rank = job.rank(random.randrange(1, 4))
        stopped_rank.send(signal.SIGSTOP)
        time.sleep(1)
        moment = time.monotonic()
        job.launcher().send(signal.SIGUSR2)
        wait_for(lambda: hosts in state_table(job.errors()), 10, "a table of all ranks")
        figure = time.monotonic() - moment
        stopped_rank.send(signal.SIGCONT)
        log = job.folder / "log"
        before = log.stat().st_mtime_ns
        wait_for(lambda: log.stat().st_mtime_ns > before, 20, "further steps")
        check(len(state_table(job.errors())) == 1, f"more than one table: {job.errors()[-600:]}")
        job.launcher().send(signal.SIGUSR1)
        job.expect_code(79)
    return figure
