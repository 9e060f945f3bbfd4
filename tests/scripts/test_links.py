#!/usr/bin/env python3
"""Links in the Markdown files lead somewhere: files and folders exist, and headings have the names
that follow `#`. Addresses on the web are not looked up, as tests need no network."""
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
CODE = re.compile(r"(`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)\1(?!`)", re.DOTALL)  # in one paragraph
# [text](target "title"), ![text](target), and [name]: target.
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[([^\]]+)\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
USE = re.compile(r"\[[^\[\]]+\]\[([^\[\]]+)\]")  # [text][name]
HTML = re.compile(r"(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")


def lines_outside_fences(text):
    """Lines with their numbers from 1; those of fenced code are left out."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        else:
            yield number, line


def anchors(text):
    """The names of headings, as GitHub makes them: lower case, hyphens for spaces, without
    punctuation; `-1`, `-2`, ... tell equal ones apart."""
    seen = {}
    for _, line in lines_outside_fences(text):
        if heading := HEADING.match(line):
            plain = re.sub(r"\]\([^)]*\)", "", heading[1])
            name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            count = seen[name] = seen.get(name, -1) + 1
            yield f"{name}-{count}" if count else name


def targets(text):
    """Link targets with the number of their line."""
    kept = "".join(f"{line}\n" if keep else "\n" for line, keep in marked(text))
    # Newlines stay, so that lines keep their numbers.
    plain = CODE.sub(lambda code: "\n" * code[0].count("\n"), kept)
    defined = {found[1].lower() for found in REFERENCE.finditer(plain)}
    for pattern in [LINK, REFERENCE, HTML]:
        for found in pattern.finditer(plain):
            yield plain.count("\n", 0, found.start()) + 1, found[found.lastindex]
    for found in USE.finditer(plain):
        if found[1].lower() not in defined:
            yield plain.count("\n", 0, found.start()) + 1, f"[{found[1]}]"


def marked(text):
    outside = {number for number, _ in lines_outside_fences(text)}
    for number, line in enumerate(text.splitlines(), 1):
        yield line, number in outside


def broken_links(file, root):
    """One line for each link of the file that leads nowhere."""
    text = file.read_text()
    for number, target in targets(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, name = target.partition("#")
        place = f"{file.relative_to(root)}:{number}"
        aim = (root / path[1:] if path.startswith("/") else file.parent / path) if path else file
        if not aim.exists():
            yield f"{place}: {target}: there is no such file"
        elif not aim.resolve().is_relative_to(root):
            yield f"{place}: {target}: is outside of the project"
        elif name and aim.suffix == ".md" and name not in set(anchors(aim.read_text())):
            yield f"{place}: {target}: {path or 'the file'} has no such heading"


class Links(unittest.TestCase):
    def test_all_lead_somewhere(self):
        listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                                 "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = listed.stdout.split()
        self.assertGreater(len(names), 10)
        broken = [line for name in names for line in broken_links(ROOT / name, ROOT)]
        self.assertEqual(broken, [], "\n" + "\n".join(broken))


class Checker(unittest.TestCase):
    """The checker itself finds what it has to."""

    def broken(self, page):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            (root / "other.md").write_text("# A `b` of C, d\n\n## Twice\n\n## Twice\n")
            (root / "page.md").write_text(page)
            return [line.split(": ")[1] for line in broken_links(root / "page.md", root)]

    def test_good_ones(self):
        self.assertEqual(self.broken(
            "# Own\n[a](other.md) [b](other.md#a-b-of-c-d) ![c](other.md \"title\") [d](#own)\n"
            "[e](other.md#twice-1) [f](https://example.org/none) [g][h]\n\n[h]: other.md#twice\n"), [])

    def test_bad_ones(self):
        self.assertEqual(self.broken("[a](none.md)"), ["none.md"])
        self.assertEqual(self.broken("[a](other.md#none)"), ["other.md#none"])
        self.assertEqual(self.broken("[a](#none)"), ["#none"])
        self.assertEqual(self.broken("[a](other.md#twice-2)"), ["other.md#twice-2"])
        self.assertEqual(self.broken("[a]\n\n[a]: none.md\n"), ["none.md"])
        self.assertEqual(self.broken("[a][b]\n\n[c]: page.md\n"), ["[b]"])
        self.assertEqual(self.broken("a ` b\n\n[a](none.md) and `c`"), ["none.md"])
        self.assertEqual(self.broken("<img src=\"none.svg\">"), ["none.svg"])
        self.assertEqual(self.broken("[a](../page.md)"), ["../page.md"])

    def test_code_has_no_links(self):
        self.assertEqual(self.broken("`[a](none.md)`\n\n```\n[a](none.md)\n# none\n```\n"), [])
        self.assertEqual(self.broken("```\n# none\n```\n[a](#none)"), ["#none"])


if __name__ == "__main__":
    unittest.main()
