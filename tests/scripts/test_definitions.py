#!/usr/bin/env python3
"""A class is defined once: two of one name in a namespace would be one to the linker."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Programs of their own, which are not linked with each other.
APART = ("apps/train_", "tools/tasuki-", "examples/", "tests/", "bench/")
NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
# Parameters of templates may have nested ones.
NOT_NAMES = re.compile(r"\btemplate\s*<(?:[^<>]|<[^<>]*>)*>|\balignas\([^()]*\)|\[\[.*?\]\]")
TOKEN = re.compile(r"[{};]|\bnamespace\b[^{};=]*|\b(?:struct|class|union|enum(?:\s+class)?)\s+[^{};()=<>]*")


def definitions(text):
    """Qualified names of the classes and enumerations that this text defines outside of functions,
    classes and namespaces without a name."""
    scopes, opening = [], ""
    for token in TOKEN.findall(NOT_NAMES.sub(" ", NOISE.sub(" ", text))):
        if token == "{":
            if opening.startswith("namespace"):
                scopes.append(opening.removeprefix("namespace").strip() or None)
            else:
                named = re.match(r"\w+(?:\s+class)?\s+(\w+)\s*(?:final\b\s*)?(?::(?!:)|$)", opening)
                if named and None not in scopes and "{" not in scopes:
                    yield "::".join([*scopes, named[1]])
                scopes.append("{")
            opening = ""
        elif token == "}":
            if scopes:
                scopes.pop()
            opening = ""
        elif token == ";":
            opening = ""
        else:
            opening = token


class Definitions(unittest.TestCase):
    def test_of_a_class_are_found(self):
        text = """
            namespace a {
            namespace { struct Hidden {}; }
            class Open final : public B { struct In {}; };
            enum class Kind { one };  // struct Comment {
            int f() { struct Local {}; return "struct Text {"[0]; }
            struct Forward;
            template <class T, class = Void<T>> struct Form { T t; };
            struct Open::In {};
            template <class T> void g(class Other& x) {}
            struct alignas(16) Wide {};
            }
            namespace a::b { struct Deep {}; }"""
        self.assertEqual(list(definitions(text)),
                         ["a::Open", "a::Kind", "a::Form", "a::Wide", "a::b::Deep"])

    def test_are_in_one_file(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.hpp", "*.cpp", "*.cu", "*.cuh"],
                                cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        files = {}
        for file in listed:
            if not file.startswith(APART) and (ROOT / file).exists():
                for name in definitions((ROOT / file).read_text()):
                    files.setdefault(name, []).append(file)
        self.assertGreater(len(files), 500)
        self.assertEqual({name: places for name, places in files.items() if len(places) > 1}, {})


if __name__ == "__main__":
    unittest.main()
