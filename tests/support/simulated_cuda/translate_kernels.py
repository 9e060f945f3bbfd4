#!/usr/bin/env python3
"""Makes C++ of a CUDA source: kernel<<<grid, block, shared, stream>>>(arguments) becomes a call of
tasuki::simulated::launch() (kernel.hpp), reading the device's timer one of nanoseconds(), and nvcc's
unroll pragmas empty lines; shared memory is declared to the simulation, too. All else stays as it is.
Headers (.cuh) that launch kernels or declare shared memory are copied into the result. A kernel with
dynamic shared memory is launched with all its template arguments, as for cudaFuncSetAttribute.

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
# extern __shared__ TYPE NAME[];
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:alignas\(\w+\) )?([\w:<>]+) (\w+)\[\];")
SHARED = re.compile(r"\b__shared__\s+([^;]+);")
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


def split(text):
    """Its parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def with_declarations(shared):
    """A declaration of shared memory, and calls that tell the simulation its size."""
    names = [re.search(r"(\w+)\s*(\[.*\])?\s*$", part, re.DOTALL).group(1) for part in split(shared.group(1))]
    calls = [f" ::tasuki::simulated::declare_shared(&{name}, sizeof({name}));" for name in names]
    return shared.group() + "".join(calls)


def translate(text):
    result = ""
    while launch := LAUNCH.search(text):
        kernel, configuration = launch.groups()
        end = end_of_arguments(text, launch.end())
        result += text[: launch.start()]
        name = re.match(r"\w+", kernel).group()
        has_dynamic = any(bytes_.strip() != "0" for bytes_ in split(configuration)[2:3])
        function = f"::tasuki::simulated::address_of({kernel})" if has_dynamic else "nullptr"
        result += f'::tasuki::simulated::launch({{{configuration}}}, {function}, "launch.{name}", '
        result += f"[](auto... arguments) {{ {kernel}(arguments...); }}, "
        result += text[launch.end() : end] + ")"
        text = text[end + 1 :]
    return result + text


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def with_headers(source):
    """The text of a source in which headers that need translation stand for their #include lines."""

    def replacement(include):
        text = read(os.path.join(ROOT, include.group(1)))
        is_plain = "<<<" not in text and "__shared__" not in text
        return include.group(0) if is_plain else text.replace("#pragma once\n", "")

    return HEADER.sub(replacement, read(source))


def main():
    source, destination = sys.argv[1:]
    text = UNROLL.sub("", translate(with_headers(source)))
    text = TIMER.sub(r"\1 = ::tasuki::simulated::nanoseconds();", text)
    text = DYNAMIC_SHARED.sub(r"\1* const \2 = static_cast<\1*>(::tasuki::simulated::dynamic_shared());", text)
    text = SHARED.sub(with_declarations, text)
    # Relative to the build folder, where compilers run: clones share what ccache has of it.
    shown = os.path.relpath(source)
    with open(destination, "w", encoding="utf-8") as file:
        file.write(f'#include "kernel.hpp"\n#line 1 "{shown}"\n{text}')


if __name__ == "__main__":
    main()
