#!/usr/bin/env python3
"""Runs ctest and lists, before its summary, what was skipped and why.

ctest shows an entry as passed when only some of its tests skip themselves, and shows no reasons. The
list comes from ctest's own log; the summary stays the last thing printed, and its exit code is the
exit code.

    scripts/run_ctest.py --test-dir build [other arguments of ctest]
"""
import pathlib
import re
import subprocess
import sys

SUMMARY = re.compile(r"^\d+% tests passed")
SKIPPED = re.compile(r"Test +#\d+: (\S+) .*\*\*\*Skipped ")
COLOUR = re.compile("\x1b\\[[0-9;]*m")  # of GoogleTest under mpirun
MOST_NAMES = 4  # of the tests of an entry that are listed one by one


def entries(log):
    """The name of each entry and what it printed, from ctest's LastTest.log."""
    log = COLOUR.sub("", log)
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        output = re.search(r"^Output:\n-+\n(.*?)\n?<end of output>", rest, re.MULTILINE | re.DOTALL)
        yield name, output.group(1) if output else ""


def skips(output, is_skipped):
    """(test, reason) of an entry; test is empty where a script as a whole was skipped."""
    reason, found = "", []
    lines = output.splitlines()
    for number, line in enumerate(lines):
        if line.endswith(": Skipped"):
            words = []
            for following in lines[number + 1:]:
                if not following.strip() or following.startswith("["):
                    break
                words.append(following.strip())
            reason = " ".join(words)
        elif match := re.match(r"\[  SKIPPED \] (\S+?),? .*\(\d+ ms\)$", line):
            found.append((match.group(1), reason))
            reason = ""
    if is_skipped and not found:
        words = [line for line in lines if line.strip()]
        found.append(("", words[-1].removeprefix("skipped: ") if words else ""))
    return found


def report(log, skipped):
    """The list, a paragraph for each reason; empty when nothing was skipped.

    `skipped`: names of entries that were skipped as a whole."""
    by_reason = {}
    for name, output in entries(log):
        for test, reason in skips(output, name in skipped):
            by_reason.setdefault(reason or "no reason given", {}).setdefault(name, []).append(test)
    lines = []
    for reason, names in by_reason.items():
        lines.append(f"  {reason}")
        for name, tests in names.items():
            tests = [test for test in tests if test]
            shown = ", ".join(tests) if len(tests) <= MOST_NAMES else f"{len(tests)} tests"
            lines.append(f"      {name}" + (f": {shown}" if shown else ""))
    return "\n".join(["Skipped, and why:", *lines, "", ""]) if lines else ""


def log_of(arguments):
    folder = "."
    for before, argument in zip(["", *arguments], arguments):
        if before == "--test-dir":
            folder = argument
        elif argument.startswith("--test-dir="):
            folder = argument.partition("=")[2]
    return pathlib.Path(folder, "Testing", "Temporary", "LastTest.log")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    ctest = subprocess.Popen(["ctest", *arguments], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)  # its last words among them
    summary, skipped = [], set()
    for raw in ctest.stdout:
        line = raw.decode(errors="replace")
        if match := SKIPPED.search(line):
            skipped.add(match.group(1))
        if summary or SUMMARY.match(line):
            summary.append(raw)
            continue
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    code = ctest.wait()
    if summary:
        try:
            log = log_of(arguments).read_text(errors="replace")
            sys.stdout.buffer.write(report(log, skipped).encode())
        except OSError as error:  # the summary is worth more than the reasons
            print(f"run_ctest: {error}", flush=True)
    sys.stdout.buffer.writelines(summary)
    sys.stdout.buffer.flush()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
