"""Time of a step or an epoch beside PyTorch's, for each kind of network and number type: on the
processor where Tasuki gains least. In bfloat16 PyTorch's autocast is the peer, compiled or not."""
import re
from typing import Callable, NamedTuple

from gnuplot import BLUE, GRAY, head, quoted
from tables import ROOT, number, table

RESULTS = "bench/results"
# Folders of files of the same names, some of which only some have.
PROCESSORS = {"amd": "AMD", "amd-zen4": "AMD Zen 4", "intel": "Intel",
              "intel-without-amx": "Intel without AMX"}


class Comparison(NamedTuple):
    what: str
    unit: str
    pytorch: float  # its best time
    own: float
    ratio: float  # as the file has it, from times with more digits
    said: str     # its hundredths
    file: str
    heading: str  # below which are command, date and machine
    processor: str


class NumberType(NamedTuple):
    suffix: str  # of what is compared
    own: str     # the name of Tasuki's row or column
    is_peer: Callable[[str], bool]


TYPES = [NumberType("", "Tasuki", lambda name: name.startswith("PyTorch") and "autocast" not in name),
         NumberType(", bfloat16", "Tasuki, bfloat16",
                    lambda name: name.startswith("PyTorch") and "autocast" in name)]


def _said(kind, sentences):
    found = re.search(rf"{kind.own} takes ([\d.]+) x the time of PyTorch 2", sentences)
    return found[1] if found else None


class Results:
    """The comparisons on one processor."""

    def __init__(self, folder):
        self.folder = folder

    def _comparison(self, what, unit, pytorch, own, ratio, said, file, heading):
        return Comparison(what, unit, pytorch, own, ratio, said or hundredths(ratio),
                          self._path(file), heading, PROCESSORS[self.folder])

    def _path(self, file):
        return f"{RESULTS}/{self.folder}/{file}"

    def _column(self, what, unit, file, heading, column, top):
        """From the rows of PyTorch and Tasuki, and from `Tasuki takes X x` below them."""
        times = {row[""]: row[column] for row in table(self._path(file), heading, [column])}
        text = (ROOT / self._path(file)).read_text()
        below = text[text.index(f"# {heading}"):].split("\n## ", 2)[0]
        for kind in TYPES:
            if kind.own not in times:
                continue
            pytorch = min(number(time) for name, time in times.items() if kind.is_peer(name))
            own = number(times[kind.own])
            said = _said(kind, below)
            ratio = float(said) if said else own / pytorch
            yield self._comparison(what + kind.suffix, unit, pytorch, own, ratio, said, file, top)

    def _row(self, what, row, ratio, name, file, heading):
        """`name` begins the line below the table that has `Tasuki takes X x`, if there is one."""
        text = (ROOT / self._path(file)).read_text()
        below = re.search(rf"(?m)^{name}: \*\*.*", text)
        for kind in TYPES:
            if kind.own not in row:
                continue
            pytorch = min(number(cell) for name, cell in row.items() if kind.is_peer(name))
            own = number(row[kind.own])
            yield self._comparison(what + kind.suffix, "ms", pytorch, own,
                                   own / pytorch if kind.suffix else number(row[ratio]),
                                   _said(kind, below[0]) if below else None, file, heading)

    def _has(self, file):
        return (ROOT / self._path(file)).exists()

    def all(self):
        if self._has("mlp.md"):
            for ranks in ["1 rank", "2 ranks"]:
                yield from self._column(f"perceptron, epoch, {ranks}", "s", "mlp.md", ranks,
                                        "s/epoch", "MLP")
        names = {"lenet": "LeNet", "cnn10": "cnn10", "vgg16_bn": "VGG-16",
                 "wrn_28_10": "wide ResNet 28-10"}
        heading = "One training step"
        if self._has("models.md"):
            for row in table(self._path("models.md"), heading, ["model", "Tasuki"]):
                yield from self._row(f"{names[row['model']]}, step", row, "ratio", row["model"],
                                     "models.md", heading)
        if self._has("lm.md"):
            yield from self._column("transformer, step, 2 ranks", "s", "lm.md", "Transformer",
                                    "s/step", "Transformer")
        if self._has("dcgan.md"):
            for row in table(self._path("dcgan.md"), heading, ["Tasuki"]):
                if row["ranks x threads"] == "1 x 1":
                    yield from self._row("DCGAN, step", row, "of PyTorch", "1 x 1", "dcgan.md",
                                         heading)
        if self._has("lstm.md"):
            yield from self._column("LSTM, step", "ms", "lstm.md", "Even sequences, 1 thread",
                                    "ms/step", "LSTM")


def hundredths(ratio):
    """0.665 as 0.67."""
    return f"{ratio + 1e-9:.2f}"


def on_processors():
    """{kind of work: its comparisons by the names of processors}."""
    found = {}
    for folder in PROCESSORS:
        for each in Results(folder).all():
            found.setdefault(each.what, {})[each.processor] = each
    return found


def compared():
    """What is claimed: of each kind of work in float32 the comparison with the largest ratio."""
    for what, each in on_processors().items():
        if not what.endswith(TYPES[1].suffix):
            yield max(each.values(), key=lambda comparison: comparison.ratio)


def source():
    rows = sorted(compared(), key=lambda row: row.ratio)
    text = head(height=70 + 44 * len(rows), left=26, bottom=3.5)
    text += ("set xrange [0:1.35]\nset yrange [-0.6:" f"{len(rows) - 0.4}" "] reverse\nunset key\n"
             "set xtics 0.25\nset grid xtics\nset border 1\nset ytics scale 0\n"
             "set xlabel 'time relative to PyTorch (shorter is faster)'\n")
    ticks = ", ".join(f"{quoted(row.what)} {place}" for place, row in enumerate(rows))
    text += f"set ytics ({ticks})\n$bars << EOD\n"
    for place, row in enumerate(rows):
        digits = 2 if row.unit == "s" else 0
        text += (f'{place} {row.own / row.pytorch:.4f} "Tasuki {row.own:.{digits}f} {row.unit}, '
                 f'{row.said} x" "PyTorch {row.pytorch:.{digits}f} {row.unit}, '
                 f'{row.processor}"\n')
    return text + (
        "EOD\nset style fill solid noborder\n"
        f"plot $bars using (0):1:(0):2:($1-0.36):($1-0.02) with boxxyerror lc rgb '{BLUE}', "
        f"$bars using (0):1:(0):(1):($1+0.02):($1+0.36) with boxxyerror lc rgb '{GRAY}', "
        "$bars using 2:($1-0.19):3 with labels left offset 0.5,0 font ',12', "
        "$bars using (1):($1+0.19):4 with labels left offset 0.5,0 font ',12'\n")
