"""Time of a gradient exchange against its size, for each communicator: inside a machine, and between
two."""
from gnuplot import head, lines
from tables import number, table

SIZES = {4: "4 B", 64: "64 B", 1024: "1 KiB", 16384: "16 KiB", 262144: "256 KiB", 4194304: "4 MiB",
         67108864: "64 MiB"}
TIMES = {1: "1 µs", 10: "10 µs", 100: "100 µs", 1000: "1 ms", 10000: "10 ms", 100000: "100 ms"}


def ticks(named):
    return ", ".join(f"'{name}' {value}" for value, name in named.items())


def source(place):
    rows = table("bench/results/exchange.md", place, ["bytes"])
    named = [(name, [(number(row["bytes"]), number(row[name])) for row in rows
                     if number(row[name])]) for name in rows[0] if name != "bytes"]
    return head() + (f"set logscale xy\nset xtics ({ticks(SIZES)})\nset ytics ({ticks(TIMES)})\n"
                     "set key left top reverse Left\nset xlabel 'bytes of gradients'\n"
                     "set ylabel 'time of an exchange'\n") + lines(named) + "\n"


def inside():
    return source("One node")


def between():
    return source("Two nodes")
