#!/usr/bin/env python3
"""Makes C++ of a CUDA source: kernel<<<grid, block, shared, stream>>>(arguments) becomes a call of
tasuki::simulated::launch() (kernel.hpp), reading the device's timer one of nanoseconds(), and nvcc's
unroll pragmas empty lines; all else stays as it is. Headers (.cuh) that launch kernels are copied into
the result.

  translate_kernels.py SOURCE.cu RESULT.cpp
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
# The name of a kernel, with the template arguments that it may have.
LAUNCH = re.compile(r"(\w+(?:\s*<[\w\s,:()]*>)?)\s*<<<(.*?)>>>\s*\(", re.DOTALL)
HEADER = re.compile(r'#include "(\w+/cuda/\w+\.cuh)"\n')
# The one instruction that CUDA has no function for.
TIMER = re.compile(r'asm volatile\("mov\.u64 %0, %%globaltimer;" : "=l"\((\w+)\)\);')
# Other compilers do not know it.
UNROLL = re.compile(r"^#pragma unroll.*$", re.MULTILINE)


def end_of_arguments(text, begin):
    """The index of the parenthesis that closes the one before `begin`."""
    depth = 1
    for index in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    raise ValueError("a launch whose arguments do not end")


def translate(text):
    result = ""
    while launch := LAUNCH.search(text):
        kernel, configuration = launch.groups()
        end = end_of_arguments(text, launch.end())
        result += text[: launch.start()]
        name = re.match(r"\w+", kernel).group()
        result += f'::tasuki::simulated::launch({{{configuration}}}, "launch.{name}", '
        result += f"[](auto... arguments) {{ {kernel}(arguments...); }}, "
        result += text[launch.end() : end] + ")"
        text = text[end + 1 :]
    return result + text


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def with_headers(source):
    """The text of a source in which headers that launch kernels stand for their #include lines."""

    def replacement(include):
        text = read(os.path.join(ROOT, include.group(1)))
        return text.replace("#pragma once\n", "") if "<<<" in text else include.group(0)

    return HEADER.sub(replacement, read(source))


def main():
    source, destination = sys.argv[1:]
    text = UNROLL.sub("", translate(with_headers(source)))
    text = TIMER.sub(r"\1 = ::tasuki::simulated::nanoseconds();", text)
    # Relative to the build folder, where compilers run: clones share what ccache has of it.
    shown = os.path.relpath(source)
    with open(destination, "w", encoding="utf-8") as file:
        file.write(f'#include "kernel.hpp"\n#line 1 "{shown}"\n{text}')


if __name__ == "__main__":
    main()
