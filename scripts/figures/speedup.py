"""Speed-up against the number of processes: the perceptron on MNIST."""
from gnuplot import GRAY, head, lines
from tables import number, table


def source():
    rows = table("docs/results.md", "ChainerMN on MNIST", ["processes", "nodes", "speed-up"])
    own = {}
    for row in rows:
        if row[""].startswith("ours") and number(row["speed-up"]):
            title = "one machine" if row["nodes"] == "1" else f"two nodes, {row['link']}"
            own.setdefault(title, []).append((number(row["processes"]), number(row["speed-up"])))
    most = max(x for points in own.values() for x, _ in points)
    cores = max(number(row["processes"]) for row in rows
                if row[""].startswith("ours") and not row["processes"].endswith("*"))
    text = head(width=900, right=28) + (
        f"set xrange [0:{most + 1:g}]\nset yrange [0:*]\nset xtics 1\n"
        "set key outside right center Left reverse samplen 2\n"
        "set xlabel 'processes'\nset ylabel 'speed-up'\n"
        f"set arrow from {cores:g}, graph 0 to {cores:g}, graph 1 nohead dt 3 lc rgb '{GRAY}'\n"
        f"set label 'as many as cores' at {cores:g}, graph 0.45 offset 0.6,0\n")
    return text + lines(own.items()) + (
        f", [0:{cores:g}] x with lines dt 2 lc rgb '{GRAY}' title 'ideal'\n")
