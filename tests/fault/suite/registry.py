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
    quick: bool  # short enough for ctest


def case(number, fault, expected, runs=1, nodes=(1, 2), quick=False):
    """Registers a function(place, run) -> a figure: seconds, or a text. It raises Failure."""
    def register(function):
        name = function.__name__.replace("_", "-")
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = Case(name, str(number), fault, expected, function, runs, nodes, quick)
        return function
    return register
