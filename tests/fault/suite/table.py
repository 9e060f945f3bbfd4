"""The table of the suite, in a Markdown file of which it may be a part (docs/reliability.md).

A cell says how many runs did what was expected, the largest figure, and in which run of the suite
that was: "20/20, at most 0.83 s (run 3)". Below the table each of these runs has a line with its
day, machine and settings. Rows and cells of other runs stay as they are.
"""
import math
import re
import string

from others import others
from registry import Most

HEAD = ("| # | fault | expected | 4 ranks on one node | 2 x 2 on two nodes | others |\n"
        "|---|---|---|---|---|---|")
PLACE_COLUMN = {1: 3, 2: 4}
NONE = "–"
RUN_LINE = re.compile(r"- Run (\d+): (.*)")


class NoTable(Exception):
    """A file has something else in it."""


def position(number):
    """Of a row: 5, 5b, 6."""
    return int(number.rstrip(string.ascii_lowercase)), number


def text_of(figure):
    if isinstance(figure, str):
        return figure
    if isinstance(figure, Most):
        return f"at most {figure.value:.3g} {figure.unit}"
    return f"at most {math.ceil(figure * 100) / 100:.2f} s"


def cell_of(figures, runs):
    """How many runs did what was expected, and the largest figure of each kind."""
    largest, texts = {}, []
    for figure in figures:
        if isinstance(figure, str):
            texts.append(figure)
            continue
        unit, value = (figure.unit, figure.value) if isinstance(figure, Most) else ("", figure)
        if unit not in largest or value > largest[unit][0]:
            largest[unit] = (value, figure)
    texts += [text_of(figure) for _, figure in largest.values()]
    return ", ".join([f"{len(figures)}/{runs}", *list(dict.fromkeys(texts))[:3]])


def escaped(text):
    return text.replace("|", "\\|").replace("\n", " ")


class Table:
    def __init__(self, file=None, settings=""):
        """`settings`: of this run of the suite."""
        self.file, self.settings, self.updates = file, settings, []
        self.read()

    def read(self):
        self.before, self.after, self.rows, self.notes = "", "", {}, {}
        if self.file and self.file.exists():
            self.parse(self.file.read_text())
        runs = {settings: run for run, settings in self.notes.items()}
        self.run = runs.get(self.settings, max(self.notes, default=0) + 1)
        self.notes[self.run] = self.settings

    def parse(self, text):
        if HEAD not in text:
            raise NoTable(f"{self.file} has no table of this suite")
        self.before, rest = text.split(HEAD + "\n", 1)
        lines = rest.split("\n")
        while lines and lines[0].startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", lines.pop(0))[1:-1]]
            self.rows[cells[0]] = cells
        if len(lines) > 1 and not lines[0] and RUN_LINE.fullmatch(lines[1]):
            lines.pop(0)
            while lines and (found := RUN_LINE.fullmatch(lines[0])):
                self.notes[int(found[1])] = found[2]
                lines.pop(0)
        self.after = "\n".join(lines)

    def update(self, case, cells):
        """With the cells of the places on which the case ran: {number of nodes: text}. Cells of a
        case that was another one then are dropped."""
        self.updates.append((case, cells))
        self.apply(case, cells)

    def apply(self, case, cells):
        words = [escaped(word) for word in (case.number, case.fault, case.expected)]
        old = self.rows.get(case.number, [])
        row = [*words, *(old[3:5] if old[:3] == words else [NONE] * 2),
               escaped(others(case.number) or NONE)]
        for nodes, cell in cells.items():
            row[PLACE_COLUMN[nodes]] = escaped(f"{cell} (run {self.run})")
        self.rows[case.number] = row

    def text(self):
        rows = [self.rows[number] for number in sorted(self.rows, key=position)]
        used = {int(run) for row in rows for cell in row[3:5]
                for run in re.findall(r"\(run (\d+)\)", cell)}
        lines = [HEAD, *("| " + " | ".join(row) + " |" for row in rows), "",
                 *(f"- Run {run}: {self.notes[run]}" for run in sorted(used & self.notes.keys()))]
        return self.before + "\n".join(lines) + "\n" + self.after

    def write(self):
        """Into the file as it is now, so that what others have written meanwhile stays; at once, so
        that a reader never finds half a table."""
        if not self.file:
            return
        self.read()
        for case, cells in self.updates:
            self.apply(case, cells)
        new = self.file.with_name(self.file.name + ".new")
        new.write_text(self.text())
        new.replace(self.file)
