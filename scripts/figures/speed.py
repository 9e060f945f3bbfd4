"""Time of a step or an epoch beside PyTorch's, for each kind of network."""
from tables import number, table
from gnuplot import BLUE, GRAY, head, quoted

RESULTS = "bench/results"


def pytorch_of(row):
    """The best time of PyTorch's columns in a row."""
    return min(number(cell) for name, cell in row.items() if name.startswith("PyTorch"))


def of_column(file, heading, column):
    """Times of the rows `PyTorch 2...` and `Tasuki`."""
    rows = table(f"{RESULTS}/{file}", heading, [column])
    pytorch = min(number(row[column]) for row in rows if row[""].startswith("PyTorch 2"))
    return pytorch, next(number(row[column]) for row in rows if row[""] == "Tasuki")


def compared():
    """(what, unit, PyTorch's time, Tasuki's time, (file, the heading of its first lines))."""
    mlp = f"{RESULTS}/mlp.md", "MLP"
    yield "perceptron, epoch, 1 rank", "s", *of_column("mlp.md", "1 rank", "s/epoch"), mlp
    yield "perceptron, epoch, 2 ranks", "s", *of_column("mlp.md", "2 ranks", "s/epoch"), mlp
    names = {"lenet": "LeNet", "cnn10": "cnn10", "vgg16_bn": "VGG-16",
             "wrn_28_10": "wide ResNet 28-10"}
    for row in table(f"{RESULTS}/models.md", "One training step", ["model", "Tasuki"]):
        yield (f"{names[row['model']]}, step", "ms", pytorch_of(row), number(row["Tasuki"]),
               (f"{RESULTS}/models.md", "One training step"))
    pytorch, own = of_column("lm.md", "Transformer", "s/step")
    yield "transformer, step, 2 ranks", "ms", pytorch * 1e3, own * 1e3, (f"{RESULTS}/lm.md", "Transformer")
    for row in table(f"{RESULTS}/dcgan.md", "One training step", ["Tasuki"]):
        if row["ranks x threads"] == "1 x 1":
            yield ("DCGAN, step", "ms", pytorch_of(row), number(row["Tasuki"]),
                   (f"{RESULTS}/dcgan.md", "One training step"))
    yield ("LSTM, step", "ms", *of_column("lstm.md", "Even sequences, 1 thread", "ms/step"),
           (f"{RESULTS}/lstm.md", "LSTM"))


def source():
    rows = sorted(compared(), key=lambda row: row[3] / row[2])
    text = head(height=70 + 44 * len(rows), left=26, bottom=3.5)
    text += ("set xrange [0:1.35]\nset yrange [-0.6:" f"{len(rows) - 0.4}" "] reverse\nunset key\n"
             "set xtics 0.25\nset grid xtics\nset border 1\nset ytics scale 0\n"
             "set xlabel 'time relative to PyTorch (shorter is faster)'\n")
    ticks = ", ".join(f"{quoted(what)} {place}" for place, (what, *_) in enumerate(rows))
    text += f"set ytics ({ticks})\n$bars << EOD\n"
    for place, (_, unit, pytorch, own, _) in enumerate(rows):
        digits = 2 if unit == "s" else 0
        text += (f'{place} {own / pytorch:.4f} "Tasuki {own:.{digits}f} {unit}, '
                 f'{own / pytorch:.2f} x" "PyTorch {pytorch:.{digits}f} {unit}"\n')
    return text + (
        "EOD\nset style fill solid noborder\n"
        f"plot $bars using (0):1:(0):2:($1-0.36):($1-0.02) with boxxyerror lc rgb '{BLUE}', "
        f"$bars using (0):1:(0):(1):($1+0.02):($1+0.36) with boxxyerror lc rgb '{GRAY}', "
        "$bars using 2:($1-0.19):3 with labels left offset 0.5,0 font ',12', "
        "$bars using (1):($1+0.19):4 with labels left offset 0.5,0 font ',12'\n")
