#!/usr/bin/env python3
"""Processor time of the builds that quickstart.sh and test.sh make, for two versions of Tasuki.

    bench/build_times.py e450299 HEAD --rounds 2 --out bench/results/build.md

A version is a commit. Each is unpacked into a temporary folder and built there from nothing, in
turns: what quickstart.sh builds, then what test.sh --quick adds to it, if the version has that, then
what test.sh adds. ccache is left out. User and system time of all compilers and linkers is counted,
of each step the least of all rounds; on a machine that does other work it grows, too.
"""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

from comparison import HERE, heading, publish

ROOT = HERE.parent
NO_CCACHE = ["-DCMAKE_CXX_COMPILER_LAUNCHER=", "-DCMAKE_CUDA_COMPILER_LAUNCHER="]


def processor_time(command, folder):
    """Seconds that a command and all its children take; its output appears only if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env={**os.environ, "CCACHE_DISABLE": "1"})
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-4000:]}\nbuild_times.py: in {folder}: {' '.join(command)} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def build(source, jobs):
    """Seconds of each step of a build from nothing."""
    with tempfile.TemporaryDirectory(prefix="tasuki-build-") as folder:
        def configure(switch):
            return processor_time(
                ["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 "-DTASUKI_WERROR=ON", "-DTASUKI_CUDA_WERROR=ON", *NO_CCACHE,
                 f"-DTASUKI_BUILD_TESTS={switch}", f"-DTASUKI_BUILD_BENCH={switch}"], source)

        def make(*targets):
            words = [word for target in targets for word in ("--target", target)]
            return processor_time(["cmake", "--build", folder, "--parallel", str(jobs), *words],
                                  source)

        quickstart = (source / "quickstart.sh").read_text()
        programs = re.search(r"--target (\S+)", quickstart).group(1)
        seconds = {"quickstart.sh": configure("OFF") + make(programs)}
        tests = configure("ON")
        if "quick_tests" in (source / "tests/CMakeLists.txt").read_text():
            seconds["test.sh --quick"] = tests + make("quick_tests")
            tests = seconds["test.sh --quick"]
        seconds["test.sh"] = tests + make()
        return seconds


def unpack(version, folder):
    folder.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", version], stdout=subprocess.PIPE)
    if archive.returncode != 0:
        sys.exit(f"build_times.py: {version} is not a commit of {ROOT}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def table(versions, least):
    lines = [f"| builds of | {versions[0]} [s] | {versions[1]} [s] | ratio |", "|---|---|---|---|"]
    for step in least[1]:
        old, new = least[0].get(step), least[1][step]
        known = old is not None
        lines.append(f"| {step} | {f'{old:.0f}' if known else '-'} | {new:.0f} | "
                     f"{f'{new / old:.2f}' if known else '-'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()

    versions = [options.old, options.new]
    least = [{}, {}]
    with tempfile.TemporaryDirectory(prefix="tasuki-versions-") as folder:
        sources = [unpack(version, pathlib.Path(folder) / name)
                   for version, name in zip(versions, ("old", "new"))]
        for number in range(options.rounds):
            for i in ((0, 1) if number % 2 == 0 else (1, 0)):
                for step, seconds in build(sources[i], options.jobs).items():
                    least[i][step] = min(seconds, least[i].get(step, seconds))
                    print(f"round {number + 1}, {versions[i]}, {step}: {seconds:.0f} s", flush=True)
    text = (f"{heading('Processor time of builds')} Without ccache; test.sh and test.sh --quick are "
            f"what they add to quickstart.sh's build.\n\n{table(versions, least)}\n")
    publish(text, options.out)


if __name__ == "__main__":
    main()
