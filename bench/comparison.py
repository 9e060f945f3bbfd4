"""What the comparisons with PyTorch share: flags, the interpreters that have it, and their report."""
import argparse
import datetime
import os
import pathlib
import platform
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout.strip()


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "?")
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def heading(title):
    """The first lines of a report, to which a sentence about the figures is added."""
    script = pathlib.Path(sys.argv[0]).name
    commit = output_of("git", "-C", str(HERE), "rev-parse", "--short", "HEAD")
    command = shlex.join([f"bench/{script}", *sys.argv[1:]])
    return f"# {title}\n\n`{command}` at {commit}, {datetime.date.today()}, {machine()}."


def publish(text, file):
    """Prints a report and, if `file` is a path, writes it there."""
    print(text)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def parser_for(description):
    """A parser of the flags that all comparisons have: --build, --python, --rounds, --out."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    default = os.environ.get("TASUKI_TORCH_PYTHON", "python3")
    parser.add_argument("--python", nargs="+", default=default.split(":"),
                        help="interpreters with PyTorch, the fastest of which is the peer (default: "
                             "$TASUKI_TORCH_PYTHON, separated by colons, or python3); none: no peer")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each program")
    parser.add_argument("--out", type=pathlib.Path)
    return parser


def torches(options):
    """The interpreters, by the versions of their PyTorch."""
    found = {}
    for python in options.python:
        if python == "none":
            continue
        version = output_of(python, "-c", "import torch; print(torch.__version__)")
        if not version:
            sys.exit(f"{sys.argv[0]}: {python} has no PyTorch; name one that has by --python")
        found[f"PyTorch {version}"] = python
    return found
