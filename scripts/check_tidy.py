#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy, and tests/.clang-tidy) over the sources that changed, or over all of them.

Changed means: since the branch left its upstream; on the upstream itself, by the last commit; and
whatever is not committed yet. A changed header is seen through one source file that includes it.
Files that passed are remembered in BUILD/tidy, by a hash of all that they include, and are not
looked at again until that changes.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from compile_commands import read_commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["*.cpp", "*.hpp"]


def git(*arguments):
    """Lines that git prints, or None when it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def base_commit():
    """The commit to compare with, or None in a repository of one commit (or a shallow clone)."""
    head = git("rev-parse", "HEAD")
    for upstream in ["@{upstream}", "origin/HEAD", "origin/main"]:
        base = git("merge-base", "HEAD", upstream)
        if base and base != head:
            return base[0]
    parent = git("rev-parse", "-q", "--verify", "HEAD~")
    return parent[0] if parent else None


def includer_of(header, compiled):
    """The source file of the same name, or else the first that includes the header."""
    twin = header.removesuffix(".hpp") + ".cpp"
    if twin in compiled:
        return twin
    line = f'#include "{header}"'
    return next((file for file in compiled if line in (ROOT / file).read_text()), None)


def changed_sources(base, compiled):
    changed = git("diff", "--name-only", "--diff-filter=d", base, "--", *SOURCES)
    changed += git("ls-files", "--others", "--exclude-standard", "--", *SOURCES)
    seen_through = [includer_of(f, compiled) if f.endswith(".hpp") else f for f in changed]
    return sorted({file for file in seen_through if file in compiled})


def fingerprint(entry):
    """Hash of the preprocessed source, its compile command and the checks."""
    command = shlex.split(entry["command"])
    command = command[: command.index("-o")] + ["-E", entry["file"]]
    text = subprocess.run(command, cwd=entry["directory"], capture_output=True, check=True).stdout
    folders = pathlib.Path(entry["file"]).parents
    checks = [file.read_bytes() for folder in folders if (file := folder / ".clang-tidy").exists()]
    return hashlib.sha256(b"\0".join([entry["command"].encode(), *checks, text])).hexdigest()


def check(clang_tidy, build, entry):
    """What clang-tidy has to say about one file; empty when nothing."""
    passed = build / "tidy" / fingerprint(entry)
    if passed.exists():
        return ""
    # The warnings of the build are GCC's business.
    flags = ["--extra-arg=-Wno-error", "--extra-arg=-Wno-unknown-warning-option"]
    done = subprocess.run([clang_tidy, "-p", build / "tidy", "--quiet", *flags, entry["file"]],
                          capture_output=True, text=True)
    if done.returncode == 0:
        passed.touch()
        return ""
    return done.stdout or done.stderr


def new_findings(output, build, seen):
    """The findings that no other file showed already (through a header), by the files' own names."""
    output = output.replace(f"{ROOT}/", "")
    output = re.sub(rf"{re.escape(str(build))}/layers/\w+/", "", output)
    blocks = re.split(r"^(?=\S+:\d+:\d+: (?:warning|error): )", output, flags=re.MULTILINE)
    fresh = [block for block in blocks if block and block not in seen]
    seen.update(fresh)
    return "".join(fresh)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all files, not only changed ones")
    parser.add_argument("build", nargs="?", default="build", help="configured build folder")
    parser.error = lambda message: parser.exit(64, f"check_tidy.py: {message}; --help says more\n")
    arguments = parser.parse_args()

    clang_tidy = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not clang_tidy:
        sys.exit("tidy: clang-tidy is missing (package clang-tidy)")
    # Later versions have more checks.
    version = re.search(r" version \S+", subprocess.check_output([clang_tidy, "--version"], text=True))[0]
    if not version.startswith(" version 14."):
        print(f"tidy: nothing is checked without clang-tidy 14; found{version}")
        return
    build = pathlib.Path(arguments.build).resolve()
    database = build / "compile_commands.json"
    if not database.exists():
        sys.exit(f"tidy: no {database}; configure first (cmake --preset release)")
    # clang-tidy 14 cannot read CUDA 12 and later.
    entries = [entry for entry in read_commands(build) if entry["file"].endswith(".cpp")]
    (build / "tidy").mkdir(exist_ok=True)
    (build / "tidy/compile_commands.json").write_text(json.dumps(entries))
    compiled = {str(pathlib.Path(e["file"]).relative_to(ROOT)): e for e in entries
                if pathlib.Path(e["file"]).is_relative_to(ROOT)
                and not pathlib.Path(e["file"]).is_relative_to(build)}

    if arguments.all:
        files, what = sorted(compiled), "all files"
    elif base := base_commit():
        files, what = changed_sources(base, compiled), f"files changed since {base[:10]}"
    else:
        print("tidy: no commit to compare with; scripts/check_tidy.py --all looks at everything")
        return

    failed, seen = [], set()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = pool.map(lambda file: check(clang_tidy, build, compiled[file]), files)
        for file, finding in zip(files, findings):
            if finding:
                failed.append(file)
                print(new_findings(finding, build, seen), end="", flush=True)
    if failed:
        sys.exit(f"tidy: {len(failed)} of {len(files)} {what} have findings: {' '.join(failed)}")
    print(f"tidy: {what} ({len(files)}): nothing found")


main()
