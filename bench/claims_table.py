"""What is claimed of Tasuki: a line each, its figure read from the table that its command made."""
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/figures"))
import speed  # noqa: E402
from tables import number, table  # noqa: E402

RESULTS = "bench/results"
PAGE = "docs/results.md"


class Origin(NamedTuple):
    command: str
    date: str
    machine: str


class Claim(NamedTuple):
    what: str
    figure: str
    file: str
    origin: Origin


def origin_of(file, heading):
    """From the first "`COMMAND` at COMMIT, DATE, MACHINE" below a heading that begins so."""
    text = (ROOT / file).read_text()
    start = re.search(rf"^#+ {re.escape(heading)}", text, re.MULTILINE)
    found = start and re.compile(
        r"`([^`]+)` at [\w-]+, (\d{4}-\d\d-\d\d), (.+?)[.;](?:\s|$)", re.DOTALL).search(
            text, start.start())
    if not found:
        sys.exit(f"claims_table.py: {file}: expected '`COMMAND` at COMMIT, DATE, MACHINE' below '{heading}'")
    return Origin(*(" ".join(part.split()) for part in found.groups()))


def row_of(file, heading, columns, **cells):
    """The first row of a table with these cells; `first` is the column without a name."""
    wanted = {"" if name == "first" else name.replace("_", " "): value
              for name, value in cells.items()}
    for row in table(file, heading, columns):
        if all(row[name] == value for name, value in wanted.items()):
            return row
    sys.exit(f"claims_table.py: {file}: no row {cells} below '{heading}'")


def against_pytorch():
    for each in speed.compared():
        yield Claim(f"{each.what}: time relative to PyTorch's", each.said,
                    each.file, origin_of(each.file, each.heading))
    file, heading = f"{RESULTS}/nodes.md", "The MLP against PyTorch"
    times = {row[""]: number(row["ms/step"]) for row in table(file, heading, ["ms/step"])}
    pytorch = next(time for name, time in times.items() if name.endswith("DDP over gloo"))
    yield Claim("perceptron, step, two nodes over 1 Gbit/s: time relative to PyTorch's",
                f"{times['Tasuki'] / pytorch:.2f}", file, origin_of(file, heading))
    file, heading = f"{RESULTS}/loader.md", "Random-resized crops"
    peer = next(row for row in table(file, heading, ["loader"])
                if row["cores"] == "1" and row["loader"].startswith("PyTorch"))
    yield Claim("images decoded and cropped a second and core, times PyTorch's",
                peer["Tasuki is faster by"], file, origin_of(file, heading))


def exchange():
    file = f"{RESULTS}/exchange.md"
    row = row_of(file, "One node", ["bytes"], bytes="4194304")
    times = {name: number(cell) for name, cell in row.items()}
    yield Claim("a sum of 4 MiB over two processes of a machine: times as fast as MPI_Allreduce",
                f"{times['MPI_Allreduce'] / times['single_node']:.1f}", file,
                origin_of(file, "Time of a gradient exchange"))


def results():
    """Of articles' tables."""
    heading = "ChainerMN on MNIST"
    columns = ["processes", "speed-up"]
    row = row_of(PAGE, heading, columns, first="ours", processes="2", nodes="1")
    yield Claim("perceptron, 20 epochs: speed-up of two processes on two cores", row["speed-up"],
                PAGE, origin_of(PAGE, heading))
    yield Claim("perceptron, 20 epochs, two processes: accuracy, mean of the last five epochs",
                row["accuracy"], PAGE, origin_of(PAGE, heading))
    heading = "LeNet on Fashion-MNIST"
    row = row_of(PAGE, heading, ["s / epoch"], first="ours", devices="2 processes")
    yield Claim("LeNet, 10 epochs, two processes: accuracy, median of three seeds",
                row["accuracy"], PAGE, origin_of(PAGE, heading))


def sameness():
    file = f"{RESULTS}/claims.md"
    for what, heading, names in [
            ("largest relative difference of 100 losses between communicators, MomentumSGD, 4 "
             "processes", "Communicators against naive", r"momentum_sgd, each of 100"),
            ("the same between 1 and 2, 3 or 4 processes on the same batches", "--shards 12",
             r"momentum_sgd, each of 100")]:
        found = max(number(row["found"]) for row in table(file, heading, ["found"])
                    if re.search(names, row["what"]) and not row["what"].startswith("dummy"))
        yield Claim(what, f"{found:.0e}", file, origin_of(file, "Claims"))


def of_case(number_of_case, pattern, what):
    """Of a case on two nodes; `what` and its figure name what the pattern finds."""
    file = "docs/reliability.md"
    row = row_of(file, "The fault suite", ["fault"], **{"#": number_of_case})
    cell = row["2 x 2 on two nodes"]
    found, run = re.search(pattern, cell), re.search(r"\(run (\d+)\)", cell)
    text = (ROOT / file).read_text()
    made = run and re.search(rf"^- Run {run[1]}: (\S+), (.*?Linux [\w.-]*\w)", text, re.MULTILINE)
    if not found or not made:
        sys.exit(f"claims_table.py: {file}: expected a figure and a run in case {number_of_case}, "
                 f"found '{cell}'")
    return Claim(what.format(**found.groupdict()), f"{found['figure']} {found['unit']}", file,
                 Origin(f"./test.sh --faults {number_of_case}", made[1], made[2]))


def reliability():
    yield of_case("8", r"at most (?P<figure>[\d.]+) (?P<unit>s)", "a host is cut off: seconds until "
                  "the last process on every host is gone, at most")
    yield of_case("30", r"(?P<figure>[\d.]+) ?(?P<unit>%) of (?P<seconds>\d+) s", "a job of "
                  "{seconds} s with ten killed ranks, three stopped ones, two cut links, a full "
                  "disk and a removed output folder: share of the time that was used")
    file, heading = f"{RESULTS}/reliability.md", "mlp"
    row = row_of(file, heading, ["cost"], first="--checkpoint-every 30s")
    yield Claim("perceptron: what checkpoints every 30 s cost", row["cost"], file,
                origin_of(file, "What reliability costs"))


def claims():
    for part in [against_pytorch, exchange, results, sameness, reliability]:
        yield from part()
