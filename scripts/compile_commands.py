#!/usr/bin/env python3
"""Writes compile_commands.json for editors (clangd): one entry for each C++ source.

    scripts/compile_commands.py [BUILD]      from a configured build folder (build)

CMake's own file in the build folder has entries for groups of sources, which are compiled as one, and
flags for precompiled headers, which only GCC can read (TASUKI_GROUP_SOURCES, TASUKI_PRECOMPILE_HEADERS).
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRECOMPILED = re.compile(r' -include ("[^"]*/cmake_pch\.hxx"|\S*/cmake_pch\.hxx)| -Winvalid-pch| -fpch-preprocess')


def read_commands(build):
    """CMake's entries, one for each source. Throws OSError if the folder was not configured."""
    build = pathlib.Path(build).resolve()
    checkout = re.search(r"(?m)^tasuki_SOURCE_DIR:STATIC=(.+)$", (build / "CMakeCache.txt").read_text())[1]
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        sources = [entry["file"]]
        if pathlib.Path(entry["file"]).parent == build / "groups":  # cmake/TasukiGroups.cmake
            names = re.findall(r'(?m)^#include "(.+)"$', pathlib.Path(entry["file"]).read_text())
            sources = [f"{checkout}/{name}" for name in names]
        command = PRECOMPILED.sub("", entry["command"])
        command = command[:command.rindex(" -c ")]
        entries += [{**entry, "file": source, "command": f"{command} -c {shlex.quote(source)}"}
                    for source in sources]
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"), help="configured build folder")
    parser.error = lambda message: parser.exit(64, f"compile_commands.py: {message}; --help says more\n")
    build = parser.parse_args().build
    try:
        entries = [entry for entry in read_commands(build) if entry["file"].endswith(".cpp")]
    except OSError as error:
        sys.exit(f"compile_commands.py: {error}; configure first (cmake --preset release)")
    file = ROOT / "compile_commands.json"
    # A link to CMake's own file, which some editors want, is replaced.
    new = ROOT / "compile_commands.json.new"
    new.write_text(json.dumps(entries, indent=1))
    os.replace(new, file)
    print(f"{file}: {len(entries)} sources")


if __name__ == "__main__":
    main()
