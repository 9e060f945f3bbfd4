"""Checks that filters divide a GoogleTest program's tests: each test is in exactly one part.

    check_parts.py PROGRAM FILTER...
"""

import collections
import subprocess
import sys


def tests_of(program, test_filter):
    command = [program, f"--gtest_filter={test_filter}", "--gtest_list_tests"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = name
        else:
            names.append(suite + name.strip())
    return names


def main():
    program, *filters = sys.argv[1:]
    found = collections.Counter(name for part in filters for name in tests_of(program, part))
    expected = collections.Counter(tests_of(program, "*"))
    for name in expected - found:
        print(f"{name} is in no part")
    for name in found - expected:
        print(f"{name} is in several parts")
    return 0 if expected and found == expected else 1


if __name__ == "__main__":
    sys.exit(main())
