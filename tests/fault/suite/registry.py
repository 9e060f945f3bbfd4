"""The cases of the suite, each a function of a place and the number of the run."""
import dataclasses
import typing

CASES = {}


@dataclasses.dataclass
class Case:
    name: str
    number: str  # of the list in docs/reliability.md
    fault: str
    expected: str
    run: typing.Callable
    runs: int
    nodes: tuple  # numbers of nodes on which it runs
    quick: tuple  # those on which it is short enough for ctest
    seconds: float  # that a run takes, about


@dataclasses.dataclass
class Most:
    """A figure of which the table shows the largest: "at most 20 steps done twice"."""
    value: float
    unit: str


def case(number, fault, expected, runs=1, nodes=(1, 2), quick=(), seconds=3):
    """Registers a function(place, run) -> a figure: seconds, Most, or a text. It raises Failure."""
    def register(function):
        name = function.__name__.replace("_", "-")
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = Case(name, str(number), fault, expected, function, runs, nodes, quick,
                           seconds)
        return function
    return register
