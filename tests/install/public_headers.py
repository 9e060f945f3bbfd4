#!/usr/bin/env python3
"""tasuki.hpp leads to every public header: those that it does not reach are named here as internal.

    public_headers.py SOURCE

A new header is therefore either included by tasuki.hpp (which has it installed) or added to the lists
below; a name that no longer fits is an error, too.
"""
import pathlib
import re
import sys

# Folders without headers for users, but for what public headers include.
INTERNAL_FOLDERS = {
    "communicator/cuda", "communicator/gpu", "communicator/kinds", "communicator/mpi",
    "communicator/node", "program/data", "program/flags", "program/report", "program/start",
    "tensor/cpu", "tensor/cuda", "training/recording",
}
# Headers of the other folders that only the library includes.
INTERNAL = {
    "core": ["alternate_stack", "cast", "hash", "host_name", "long_call", "type_name"],
    "dataset": ["decode", "numbers"],
    "dataset/files": ["cifar", "idx", "input_file", "text_file"],
    "dataset/images": ["image", "image_formats", "image_record"],
    "job": ["launcher", "launcher_end", "lost_connection", "process_state", "stall_text",
            "start_watch", "stop_signals"],
    "nn": ["node"],
    "optimizer": ["built_in_rules", "kernel_hook", "update_plan"],
    "program": ["batch_size", "engine", "extensions", "initial_state", "learning_rate", "resume",
                "run_training", "workers"],
    "tensor": ["axis_geometry", "convolution_geometry", "cuda_driver", "cuda_entry",
               "cuda_libraries", "gather_check", "half", "host_memory", "pooling_geometry", "step_clock_scope", "step_recorder"],
    "training": ["gpu_sensors", "process_load", "watched_value"],
}
# What is no part of the library.
OTHER_FOLDERS = {"apps", "bench", "build", "examples", "experiments", "tests"}


def reached(source):
    waiting, seen = ["tasuki.hpp"], set()
    while waiting:
        header = waiting.pop()
        if header not in seen:
            seen.add(header)
            text = (source / header).read_text()
            waiting += re.findall(r'^#include "tasuki/([^"]+)"', text, re.MULTILINE)
    return seen


def all_headers(source):
    for folder in source.iterdir():
        if folder.is_dir() and not folder.name.startswith((".", *OTHER_FOLDERS)):
            yield from (path.relative_to(source).as_posix() for path in folder.rglob("*.hpp"))


def main():
    source = pathlib.Path(sys.argv[1])
    public = reached(source)
    internal = {f"{folder}/{name}.hpp" for folder, names in INTERNAL.items() for name in names}
    headers = set(all_headers(source))
    assert len(headers) > 200, f"only {len(headers)} headers found in {source}"

    complaints = []
    for header in sorted(headers - public - internal):
        if str(pathlib.PurePosixPath(header).parent) not in INTERNAL_FOLDERS:
            complaints.append(f"{header}: tasuki.hpp does not lead to it; include it there, or name "
                              f"it as internal in {pathlib.Path(__file__).name}")
    for header in sorted(internal & public):
        complaints.append(f"{header} is named as internal, but tasuki.hpp leads to it")
    for header in sorted(internal - headers):
        complaints.append(f"{header} is named as internal, but is not there")
    print("\n".join(complaints) or f"{len(public)} public headers")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
