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


def heading(title):
    """The first lines of a report, to which a sentence about the figures is added."""
    script = pathlib.Path(sys.argv[0]).name
    commit = output_of("git", "-C", str(HERE), "rev-parse", "--short", "HEAD")
    if output_of("git", "-C", str(HERE), "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    command = shlex.join([f"bench/{script}", *sys.argv[1:]])
    return f"# {title}\n\n`{command}` at {commit}, {datetime.date.today()}, {machine()}."


def publish(text, file):
    """Prints a report and, if `file` is a path, writes it there."""
    print(text)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def parser_for(description, types=True):
    """A parser of the flags that all comparisons have; with `types`, --bfloat16, too."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
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


def contenders(options, peer, ours):
    """By name: each PyTorch, as peer(python, flags) runs it, and Tasuki, as ours(dtype) does."""
    made = {}
    for name, python in torches(options).items():
        made[name] = peer(python, [])
        if options.bfloat16:
            made[name + AUTOCAST] = peer(python, ["--bf16"])
            made[f"{name}{AUTOCAST}, compiled"] = peer(python, ["--bf16", "--compile"])
    made["Tasuki"] = ours("float32")
    if options.bfloat16:
        made[OURS_IN_BFLOAT16] = ours("bfloat16")
    return made


def ratios(seconds):
    """Sentences that compare the medians of contenders(): Tasuki with the fastest PyTorch of the same
    type, and bfloat16 with float32."""
    said = []
    for ours, is_peer in (("Tasuki", lambda name: AUTOCAST not in name),
                          (OURS_IN_BFLOAT16, lambda name: AUTOCAST in name)):
        peers = [name for name in seconds if name.startswith("PyTorch") and is_peer(name)]
        if ours in seconds and peers:
            best = min(peers, key=seconds.get)
            said.append(f"{ours} takes {seconds[ours] / seconds[best]:.2f} x the time of {best}.")
    if OURS_IN_BFLOAT16 in seconds:
        said.append(f"{OURS_IN_BFLOAT16} takes {seconds[OURS_IN_BFLOAT16] / seconds['Tasuki']:.2f} "
                    "x the time of float32.")
    return f"\n**{' '.join(said)}**\n" if said else ""
