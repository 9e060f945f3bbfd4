"""Speed-up against the number of processes: the perceptron on MNIST."""
from gnuplot import GRAY, head, lines
from tables import number, table


def source():
    rows = table("docs/results.md", "ChainerMN on MNIST", ["processes", "nodes", "speed-up"])
    own = {}
    for row in rows:
        if row[""].startswith("ours") and number(row["speed-up"]):
            nodes = int(number(row["nodes"]))
            link = row.get("link", "")
            title = "one machine" if nodes == 1 else f"two nodes{', ' + link if link else ''}"
            own.setdefault(title, []).append((number(row["processes"]), number(row["speed-up"])))
    most = max(x for points in own.values() for x, _ in points)
    text = head() + (f"set xrange [0:{most + 1:g}]\nset yrange [0:*]\nset key left top reverse Left\n"
                     "set xtics 1\nset xlabel 'processes, on two cores'\nset ylabel 'speed-up'\n")
    return text + lines(own.items()) + f", [0:2] x with lines dt 2 lc rgb '{GRAY}' title 'ideal'\n"
