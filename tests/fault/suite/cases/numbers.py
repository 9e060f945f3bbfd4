"""Numbers that go wrong, and ranks that are not alike."""
import json
import shlex
import struct
import time

from cases.endings import faulty, gone_after_fault
from jobs import check
from registry import case
from training import Settings, job_of, new_folder, program, train_mnist, within


@case(21, "1,001 examples in batches of 16 on 4 ranks; 3 examples to train with, or to evaluate, "
      "so that a rank has none",
      "no hang, exit code 0; each example counts once: accuracies are those of one process",
      runs=3, seconds=5)
def uneven(place, run):
    examples, test_examples = ((1001, 1001), (3, 1001), (1001, 3))[run % 3]

    def accuracies(np):
        out = new_folder() / "result"
        # Weights stay what they are, so an accuracy is a count of examples.
        words = train_mnist(out, "--examples", examples, "--test-examples", test_examples,
                            "--global-batch", 16, "--epoch", 2, "--optimizer", "sgd", "--lr",
                            "1e-30")
        with job_of(place.mpirun(words, np=np)) as job:
            job.expect_code(0)
        lines = json.loads((out / "log").read_text())
        return [(line["main/accuracy"], line["validation/main/accuracy"]) for line in lines]
    one, four = accuracies(1), accuracies(4)
    check(len(one) == 2 and one == four, f"accuracies {four} with 4 ranks, {one} with one")
    return "exact"


@case(22, "an input of rank 2 becomes NaN in iteration 3",
      "all stop in that iteration, rank and iteration are named, the snapshot of the one before is "
      "there and none of this one", runs=4, seconds=3)
def not_a_number(place, run):
    with faulty(place, "forward", "nan", rank=2) as job:
        job.expect_failure()
        job.expect_said("in iteration 3 on rank 2")
        result = job.folder / "result"
        check((result / "snapshot_iter_2").exists() and not (result / "snapshot_iter_3").exists(),
              f"snapshots {sorted(path.name for path in result.glob('snapshot*'))}")
        return gone_after_fault(job, 4)


@case("22b", "the same with --on-nan skip, once and in each iteration from the third one on",
      "one step is left out, rank and iteration are named, the run goes on; after ten in a row exit "
      "code 78", runs=4)
def left_out(place, run):
    is_once = run % 2 == 0
    with faulty(place, "forward", "once" if is_once else "always", rank=2) as job:
        job.expect_code(0 if is_once else 78)
        lines = [line for line in job.errors().splitlines() if " is left out (" in line]
        check(lines and "iteration 3 is left out (1 so far)" in lines[0] and "rank 2" in lines[0],
              f"no line names iteration 3 on rank 2: {job.last_words()}")
        check(len(lines) == (1 if is_once else 9), f"{len(lines)} steps were left out")
        return gone_after_fault(job, 4)


def other_build(file):
    """A copy of a program that another build could have made: with another build id."""
    contents = bytearray(file.read_bytes())
    note = contents.find(struct.pack("<3I", 4, 20, 3) + b"GNU\0")
    check(note >= 0, f"no build id in {file}")
    contents[note + 16] ^= 1
    copy = new_folder() / file.name
    copy.write_bytes(contents)
    copy.chmod(0o755)
    return copy


@case(23, "rank 2 has another learning rate, another seed, another model, another build of the "
      "program", "exit code 76 with what differs, within 5 s", runs=4, seconds=2)
def unlike_ranks(place, run):
    flag = (("--lr", "0.5"), ("--seed", "7"), ("--unit", "100"), ())[run % 4]
    words = [str(word) for word in train_mnist(new_folder() / "result")]
    others = [str(other_build(program("train_mnist"))), *words[1:]] if not flag else [*words, *flag]
    script = ('[ "$OMPI_COMM_WORLD_RANK" = 2 ] || exec ' + shlex.join(words) + "; exec " +
              shlex.join(others))
    with job_of(place.mpirun(["sh", "-c", script])) as job:
        job.expect_code(76)
        job.expect_named(2, place.host(2))
        job.expect_said(flag[0].lstrip("-") if flag else "program train_mnist, build ")
        return within(job.gone(job.start, 60), 5)


@case(24, "one bit of a weight flips on rank 3, with --check-replicas", "exit code 76 within the "
      "interval; the rank is named", runs=4)
def flipped_weight(place, run):
    with faulty(place, "forward", "flip", rank=3) as job:
        job.expect_code(76)
        job.expect_named(3, place.host(3))
        return gone_after_fault(job, 4)


@case(29, "a peer of NCCL is killed (simulated NCCL; on GPUs: scripts/gpu_check.sh)",
      "the exchange is given up on every rank, none hangs", nodes=(1,))
def lost_peer(place, run):
    test = Settings.build / "tests/fault/test_exchange_end"
    check(test.exists(), f"{test} is not built")
    with job_of([test], 120) as job:
        job.expect_code(0)
        return time.monotonic() - job.start
