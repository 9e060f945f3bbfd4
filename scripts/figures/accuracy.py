"""Accuracy per epoch: LeNet on Fashion-MNIST with one and two processes."""
from gnuplot import head, lines
from tables import number, table


def source():
    rows = table("docs/results.md", "LeNet on Fashion-MNIST", ["epoch"])
    named = [(name, [(number(row["epoch"]), number(row[name])) for row in rows
                     if number(row[name]) is not None]) for name in rows[0] if name != "epoch"]
    return head() + ("set key right bottom\nset xtics 1\nset xlabel 'epoch'\n"
                     "set ylabel 'accuracy on test data'\nset yrange [*:*]\n" + lines(named) + "\n")
