"""The network between two nodes: cut, interrupted, slow, lossy."""
import time

from jobs import wait_for
from places import cut, mend, node2
from registry import case
from training import (checkpoints, expect_equal, expect_loadable, job_of, new_folder, train_mnist,
                      undisturbed, within)

WORK = ("--epoch", "60")


@case(8, "node 2 is cut off, at its start, in training, and while a checkpoint is written; its "
      "link goes down or packets vanish; default settings",
      "an error, every process on every node gone in 30 s, the newest checkpoint loads", runs=6,
      nodes=(2,), seconds=20)
def cut_host(place, run):
    moment, silently = ("start", "training", "saving")[run % 3], run >= 3
    out, sign = new_folder() / "result", new_folder() / "cut"
    options = ["--cut", sign, *(["--silently"] if silently else [])]
    words = train_mnist(out, "--epoch", 100_000, "--log-every", 5)
    with job_of(place.mpirun(words, cluster=options), 120) as job:
        if moment == "start":
            time.sleep(0.3)
        elif moment == "training":
            wait_for(lambda: checkpoints(out), 40, "the first checkpoint")
        else:
            wait_for(lambda: checkpoints(out), 40, "the first checkpoint")
            wait_for(lambda: list(out.glob("checkpoints/*.tmp")), 40, "a checkpoint being written")
        since = time.monotonic()
        sign.touch()
        time.sleep(0.1)
        figure = within(job.gone(since, 90), 30)
        job.expect_failure()
    if moment != "start" or checkpoints(out):
        expect_loadable(out)
    return figure


@case(9, "the link of node 2 is down for a second", "the run goes on, its result has the same bits",
      runs=10, nodes=(2,), seconds=12)
def link_down(place, run):
    expected, _ = undisturbed(place, *WORK)
    out = new_folder() / "result"
    with job_of(place.mpirun(train_mnist(out, "--log-every", 5, *WORK)), 90) as job:
        wait_for(lambda: (out / "log").exists(), 40, "start of the training")
        cut(job)
        time.sleep(1)
        mend(job)
        job.expect_code(0)
    expect_equal(out, expected)
    return "same bits"


@case(10, "nodes send at 100 Mbit/s", "the run goes on, its result has the same bits", nodes=(2,),
      seconds=40)
def slow_network(place, run):
    work = ("--epoch", 10)
    expected, calm = undisturbed(place, *work)
    out = new_folder() / "result"
    with job_of(place.mpirun(train_mnist(out, *work), cluster=["--rate", "100mbit"]), 240) as job:
        job.expect_code(0)
        slower = (time.monotonic() - job.start) / calm
    expect_equal(out, expected)
    return f"same bits, {slower:.1f} x as long"


@case(11, "1 % of the packets to node 2 are lost", "the run goes on, its result has the same bits",
      nodes=(2,), seconds=25)
def lossy_network(place, run):
    expected, _ = undisturbed(place, *WORK)
    out = new_folder() / "result"
    with job_of(place.mpirun(train_mnist(out, "--log-every", 5, *WORK)), 240) as job:
        wait_for(lambda: (out / "log").exists(), 40, "start of the training")
        node2(job, "ip", "netns", "exec", "node2", "iptables", "-A", "INPUT", "-m", "statistic",
              "--mode", "random", "--probability", "0.01", "-j", "DROP")
        job.expect_code(0)
    expect_equal(out, expected)
    return "same bits"
