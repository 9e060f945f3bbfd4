"""Checkpoints that are cut short, damaged, incomplete or foreign, and disks that are full."""
import json
import random
import shutil
import signal
import time

from jobs import check, wait_for
from registry import Most, case
from places import ROOT
from training import (PASSED_OVER, Settings, expect_equal, expect_loadable, expect_resumed,
                      checkpoints, fill, job_of, new_folder, resumed, small_disk, train_mnist,
                      training, undisturbed, work)

CHECKPOINTS_TEST = "tests/saving/test_saving_checkpoints"
SHARDED = ("--shard-optimizer", "--shards", 12)


def two_checkpoints(place, *flags):
    """An output folder with checkpoints of iterations 20 and 40."""
    out = new_folder() / "result"
    with job_of(place.mpirun(train_mnist(out, "--max-iterations", 40, *flags))) as job:
        job.expect_code(0)
    for snapshot in out.glob("snapshot_iter_*"):  # of the end; these cases are about checkpoints
        snapshot.unlink()
    check([path.name for path in checkpoints(out)] == ["iter_20", "iter_40"],
          f"checkpoints {[path.name for path in checkpoints(out)]}, expected iter_20 and iter_40")
    return out


def expect_previous(out, damage, *flags):
    """The newest checkpoint is passed over with a reason, and the one before it is used."""
    older, newer = checkpoints(out)
    code, text = resumed(out, *flags)
    refused = [line for line in text.splitlines() if PASSED_OVER in line and str(newer) in line]
    check(code == 0 and len(refused) == 1,
          f"after {damage}: exit code {code}, expected why not {newer.name}: {text[-300:]}")
    expect_resumed(text, older)


def expect_no_partial_files(out):
    partial = [path.name for path in out.rglob("*.tmp*")]
    check(not partial, f"partial files: {', '.join(partial)}")


@case(14, "the disk is full while checkpoints are saved, until the end of the run",
      "warnings with the path, training goes on, the older checkpoint loads, no partial files; at "
      "the end an error, exit code 73")
def full_disk(place, run):
    with small_disk(4) as disk:  # for one; of more, older ones would make room
        out = disk / "result"
        with job_of(place.mpirun(train_mnist(out, "--max-iterations", 200))) as job:
            job.expect_code(73)
            job.expect_said("No space left on device", str(out), "; training continues")
        expect_no_partial_files(out)
        expect_loadable(out)
    return "older one loads"


@case("14c", "the disk is full while a checkpoint is saved, and has room again later",
      "a warning with the path, later checkpoints are saved, no partial files; exit code 0, the "
      "result has the same bits", seconds=15)
def room_again(place, run):
    expected, _ = undisturbed(place, *work())
    with small_disk(24) as disk:
        out, filler = disk / "result", disk / "filler"
        refused = f"cannot write {out / 'checkpoints'}/"

        def is_refused():
            fill(filler)
            return refused in job.errors()

        # Of more checkpoints than one older ones would make room.
        with job_of(place.mpirun(train_mnist(out, "--keep", 1, *work())), 120) as job:
            wait_for(lambda: checkpoints(out), 40, "the first checkpoint")
            wait_for(is_refused, 40, "a warning about a checkpoint")
            before = checkpoints(out)[-1]
            filler.unlink()
            wait_for(lambda: checkpoints(out)[-1] != before, 40, "a checkpoint after it")
            job.expect_code(0)
        expect_no_partial_files(out)
        expect_equal(out, expected)
    return "saved later, same bits"


@case("14b", "the disk is full while the log is written",
      "warnings with the path, training goes on, the log is whole; it goes on when there is room",
      seconds=8)
def no_room_for_log(place, run):
    with small_disk(16) as disk:
        out, filler = disk / "result", disk / "filler"
        log = out / "log"
        words = train_mnist(out, "--epoch", 100_000, "--log-every", 5, "--checkpoint-every", "none",
                            "--snapshot-every", 100_000, unit=20)
        with job_of(place.mpirun(words)) as job:
            wait_for(log.exists, 40, "start of the training")
            fill(filler)
            refused = f"{log}: No space left on device; training continues"
            wait_for(lambda: refused in job.errors(), 40, "a warning about the log")
            time.sleep(3)  # the log is tried each second
            written = len(json.loads(log.read_text()))
            filler.unlink()
            wait_for(lambda: len(json.loads(log.read_text())) > written, 40, "further lines")
            wait_for(lambda: f"{log} can be written again" in job.errors(), 40, "the other warning")
            check(job.errors().count(refused) == 1, f"several warnings: {job.errors()}")
            job.launcher().send(signal.SIGUSR1)
            job.expect_code(79)
    return "log is whole"


@case(15, "all processes are killed at a random moment while a checkpoint is written",
      "the newest complete one loads", runs=50, nodes=(1,), seconds=4)
def killed_while_saving(place, run):
    out = new_folder() / "result"
    words = train_mnist(out, "--epoch", 100_000, "--checkpoint-every", "1it")
    with job_of(place.mpirun(words)) as job:
        wait_for(lambda: len(checkpoints(out)) > 1, 40, "two checkpoints")
        wait_for(lambda: list(out.glob("checkpoints/*.tmp")), 40, "a checkpoint being written")
        time.sleep(random.uniform(0, 0.02))
        for process in job.processes():
            process.send(signal.SIGKILL)
        job.expect_failure()
    expect_loadable(out)
    shutil.rmtree(out)
    return "loads"


def flip_a_bit(contents):
    at = random.randrange(8 * len(contents))
    contents[at // 8] ^= 1 << at % 8
    return contents


@case(16, "50 flipped bits and 14 truncations in the files of the newest checkpoint, one at a time",
      "each is refused with a reason, the previous one is used", nodes=(1,), quick=(1,), seconds=60)
def damaged_files(place, run):
    out = two_checkpoints(place)
    files = sorted(path for path in checkpoints(out)[-1].iterdir())
    count = 0

    def expect_refused(path, contents, damage):
        nonlocal count
        path.write_bytes(contents)
        expect_previous(out, damage)
        count += 1
    for path in files:
        contents = path.read_bytes()
        for _ in range(1 if Settings.quick else -(-50 // len(files))):
            expect_refused(path, flip_a_bit(bytearray(contents)), f"a flipped bit in {path.name}")
        lengths = (0, 1, len(contents) // 3, len(contents) // 2, len(contents) - 64,
                   len(contents) - 2, len(contents) - 1)
        for length in lengths[::6] if Settings.quick else lengths:
            expect_refused(path, contents[:length], f"{path.name} cut to {length} bytes")
        path.write_bytes(contents)
    expect_loadable(out)
    return f"{count}/{count}"


@case("16b", "1,000 flipped bits and 200 truncations over all files of a checkpoint, by the reader",
      "all are detected, the previous checkpoint is used", nodes=(1,), seconds=30)
def damaged_checkpoints(place, run):
    builds = [ROOT / "build-asan", Settings.build]
    test = next((build / CHECKPOINTS_TEST for build in builds
                 if (build / CHECKPOINTS_TEST).exists()), None)
    check(test, f"{Settings.build / CHECKPOINTS_TEST} is not built")
    report = new_folder() / "report.json"
    names = ["DetectsEachOf1000FlippedBits", "DetectsEachOf200Truncations"]
    chosen = ":".join(f"DamagedCheckpoint.{name}" for name in names)
    with job_of([test, f"--gtest_filter={chosen}", f"--gtest_output=json:{report}"], 600) as job:
        job.expect_code(0)
        job.expect_said("[  PASSED  ] 2 tests.")
    counts = [int(each["refused"]) for suite in json.loads(report.read_text())["testsuites"]
              for each in suite["testsuite"]]
    check(len(counts) == 2 and counts[0] >= 1000 and counts[1] >= 200, f"tried: {counts}")
    has_sanitizers = b"__asan_init" in test.read_bytes()
    return (f"{sum(counts):,} refused, " +
            ("with sanitizers" if has_sanitizers else "without sanitizers (./test.sh --asan -R "
             "saving_checkpoints runs the same with them)"))


@case(17, "a shard is missing; shards of two checkpoints are mixed; another model's checkpoint",
      "refused, with what differs; the previous one is used where there is one", seconds=10)
def mixed_shards(place, run):
    out = two_checkpoints(place, *SHARDED)
    older, newer = checkpoints(out)
    shard = newer / "optimizer.2.npz"
    check(shard.exists(), f"no {shard.name} among {sorted(path.name for path in newer.iterdir())}")
    contents = shard.read_bytes()
    shard.unlink()
    expect_previous(out, "a shard was removed", *SHARDED)
    shard.write_bytes((older / shard.name).read_bytes())
    expect_previous(out, "a shard of the older checkpoint was put there", *SHARDED)
    shard.write_bytes(contents)
    with job_of(train_mnist(out, "--resume", newer, "--dry-run", unit=100)) as job:
        job.expect_failure()
        job.expect_said("l1")
    return "refused"


@case(18, "saved with 4 ranks, resumed with 1, 2 and 3 (--shards 12 --global-batch 1200, sharded "
      "states)", "same order of examples, losses within 1e-5", runs=3, seconds=10)
def other_ranks(place, run):
    np = run % 3 + 1
    flags = ("--shards", 12, "--global-batch", 1200, "--log-every", 1, "--max-iterations", 60)

    def losses(out):
        log = json.loads((out / "log").read_text())
        return {line["iteration"]: line["main/loss"] for line in log}

    whole, part = new_folder() / "whole", new_folder() / "part"
    for out, extra in ((whole, ()), (part, ("--max-iterations", 40, "--shard-optimizer"))):
        with job_of(place.mpirun(train_mnist(out, *flags, *extra))) as job:
            job.expect_code(0)
    saved = part / "checkpoints/iter_40"
    pieces = sorted(path.name for path in saved.glob("optimizer.*"))
    check(pieces == [f"optimizer.{rank}.npz" for rank in range(4)], f"pieces of states: {pieces}")
    with job_of(place.mpirun(train_mnist(part, *flags, "--resume", saved), np=np)) as job:
        job.expect_code(0)
        expect_resumed(job.text(), saved)
    one, other = losses(whole), losses(part)
    check(sorted(one) == sorted(other) and len(one) == 60, f"iterations {sorted(other)}")
    largest = max(abs(one[i] - other[i]) / max(1, abs(one[i])) for i in one)
    check(largest <= 1e-5, f"losses differ by {largest:.1e}")
    return Most(largest, "apart")


def kill_and_resume(place, *flags):
    with training(place, *flags) as job:
        time.sleep(random.uniform(0, 0.5))
        job.rank(random.randrange(4)).send(signal.SIGKILL)
        job.expect_failure()
    newest = checkpoints(job.folder)[-1]
    with job_of(place.mpirun(train_mnist(job.folder, "--resume", "auto", *work(), *flags)),
                120) as job_again:
        job_again.expect_code(0)
        expect_resumed(job_again.text(), newest)
    expect_equal(job.folder, undisturbed(place, *work(), *flags)[0])
    return "same bits"


@case(19, "kill and resume against a run without a kill",
      "weights and optimizer states have the same bits", runs=3, seconds=20)
def resumed_after_kill(place, run):
    return kill_and_resume(place)


@case("19b", "the same with sharded states (--shard-optimizer)",
      "weights and optimizer states have the same bits", runs=3, seconds=20)
def resumed_pieces(place, run):
    return kill_and_resume(place, "--shard-optimizer")
