"""What the comparisons with PyTorch share: flags, the interpreters that have it, and their report."""
import argparse
import datetime
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = "train_mnist"  # of those that every build has, the one that is asked for versions
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout.strip()


# What decides how fast products are, by its names in /proc/cpuinfo.
INSTRUCTION_SETS = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX512_BF16",
                    "amx_tile": "AMX", "amx_bf16": "AMX-BF16"}


def machine():
    """The processor with its instruction sets and caches, and the system."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    found = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    found = {name.strip(): value.strip() for name, value in found.items()}
    flags = found.get("flags", found.get("Features", "")).split()
    sets = [name for flag, name in INSTRUCTION_SETS.items() if flag in flags]
    caches = []
    for cache in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((cache / name).read_text().strip()
                             for name in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    return (f"{found.get('model name', '?')} ({', '.join(sets + caches)}), {os.cpu_count()} cores, "
            f"{platform.system()} {platform.release()}")


def libraries(build, peers):
    """The versions of what computes and exchanges, in the programs of a build and in the peers."""
    said = output_of(build / "apps" / PROGRAM, "--version").splitlines()[1:]
    names = [line.split(": ", 1)[1] for line in said]
    for name, python in peers.items():
        settings = output_of(python, "-c", "import torch; print(torch.__config__.show())")
        found = re.search(r"(?:MKL-DNN|oneDNN) v([\d.]+)", settings)
        names.append(f"{name} with oneDNN {found[1]}" if found else f"{name} without oneDNN")
    return ", ".join(names)


def heading(title, build=None, peers={}):
    """The first lines of a report, to which a sentence about the figures is added. With the build whose
    programs ran, and torches() that did, the versions of their libraries are in it."""
    script = pathlib.Path(sys.argv[0]).name
    commit = output_of("git", "-C", str(HERE), "rev-parse", "--short", "HEAD")
    if output_of("git", "-C", str(HERE), "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    command = shlex.join([f"bench/{script}", *sys.argv[1:]])
    where = f"{machine()}, {libraries(build, peers)}" if build else machine()
    return f"# {title}\n\n`{command}` at {commit}, {datetime.date.today()}, {where}."


def publish(text, file):
    """Prints a report and, if `file` is a path, writes it there."""
    print(text)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def build_folder(path):
    """A flag's value: a folder whose programs can run, or at least say their versions."""
    folder = pathlib.Path(path)
    if not (folder / "apps" / PROGRAM).exists():
        raise argparse.ArgumentTypeError(f"expected a build, found no {folder / 'apps' / PROGRAM}; "
                                         "build all programs")
    return folder


def parser_for(description, types=True):
    """A parser of the flags that all comparisons have; with `types`, --bfloat16, too."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    # The default is a text, which argparse checks as what is given.
    parser.add_argument("--build", type=build_folder, default=str(HERE.parent / "build"))
    default = os.environ.get("TASUKI_TORCH_PYTHON", "python3")
    parser.add_argument("--python", nargs="+", default=default.split(":"),
                        help="interpreters with PyTorch, the fastest of which is the peer (default: "
                             "$TASUKI_TORCH_PYTHON, separated by colons, or python3); none: no peer")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each program")
    if types:
        parser.add_argument("--bfloat16", action="store_true",
                            help="both in bfloat16, too: here --dtype bf16, there autocast with and "
                                 "without torch.compile")
    parser.add_argument("--out", type=pathlib.Path)
    return parser


def parser_for_programs(description):
    """A parser of the flags of a comparison of the project's programs with each other."""
    parser = parser_for(description, types=False)
    parser.add_argument("--data", nargs="*", default=[], metavar="PROGRAM=PATH",
                        help="the programs' --data")
    return parser


def read_data(options):
    """The options, with --data by programs."""
    options.data = dict(each.split("=", 1) for each in options.data)
    return options


def options_for_programs(description):
    """The flags of a comparison of the project's programs with each other, as they were given."""
    return read_data(parser_for_programs(description).parse_args())


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


# The programs' --dtype by the names that bench/'s own have.
DTYPE_FLAGS = {"float32": ["--dtype", "fp32"], "bfloat16": ["--dtype", "bf16"]}
AUTOCAST, OURS_IN_BFLOAT16 = ", autocast", "Tasuki, bfloat16"


# What stands behind a PyTorch's name, and its flags: orders of images in memory.
PLAIN = {"": []}
BOTH_ORDERS = {**PLAIN, ", channels_last": ["--channels-last"]}


def contenders(options, peer, ours, kinds=PLAIN):
    """By name: each PyTorch, as peer(python, flags) runs it, in each of these kinds, and Tasuki, as
    ours(dtype) does."""
    made = {}
    for version, python in torches(options).items():
        for kind, flags in kinds.items():
            name = version + kind
            made[name] = peer(python, flags)
            if options.bfloat16:
                made[name + AUTOCAST] = peer(python, [*flags, "--bf16"])
                made[f"{name}{AUTOCAST}, compiled"] = peer(python, [*flags, "--bf16", "--compile"])
    made["Tasuki"] = ours("float32")
    if options.bfloat16:
        made[OURS_IN_BFLOAT16] = ours("bfloat16")
    return made


def peers_in_float32(names):
    return [name for name in names if name.startswith("PyTorch") and AUTOCAST not in name]


def ratios(seconds):
    """Sentences that compare the medians of contenders(): Tasuki with the fastest PyTorch of the same
    type, and bfloat16 with float32."""
    said = []
    for ours, peers in (("Tasuki", peers_in_float32(seconds)),
                        (OURS_IN_BFLOAT16, [name for name in seconds if AUTOCAST in name])):
        if ours in seconds and peers:
            best = min(peers, key=seconds.get)
            said.append(f"{ours} takes {seconds[ours] / seconds[best]:.2f} x the time of {best}.")
    if OURS_IN_BFLOAT16 in seconds:
        said.append(f"{OURS_IN_BFLOAT16} takes {seconds[OURS_IN_BFLOAT16] / seconds['Tasuki']:.2f} "
                    "x the time of float32.")
    return f"\n**{' '.join(said)}**\n" if said else ""
