#!/usr/bin/env python3
"""What Doxygen reads in place of a file: docs/Doxyfile calls it with the file's path.

Headers: plain comments become Doxygen's. The comment at the top describes the file, a comment behind a member
describes that member, and headings (--- who and where ---) are left out. Lines keep their numbers.

Pages: headings get anchors, which GitHub makes and Doxygen does not, and links lead to them. An anchor joins
the names of page and heading, such as docs_training_data, because anchors must differ among all
pages. Links to public headers lead to their reference. The site has no other files, so that a link to one becomes
its path.
"""
import importlib
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*<?([^)\s>]+)>?((?:\s+\"[^\"]*\")?)\s*\)")
TRAILING = re.compile(r"^(.*[^\s/].*?)  // (.*)$")


def plain_text(comment):
    """So that Doxygen sees neither tags nor commands in it."""
    for character, written in ("\\", r"\\"), ("@", r"\@"), ("#", r"\#"), ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"):
        comment = comment.replace(character, written)
    return comment


def header(text):
    return "".join(f"{line}\n" for line in commented(text.splitlines()))


def commented(lines):
    top, column = True, None  # column: where the comment behind a member begins
    for line in lines:
        stripped = line.lstrip()
        indent = len(line) - len(stripped)
        if top and stripped.startswith("#pragma once"):
            yield "/// @file"
            top = False
        elif stripped.startswith("// ---"):
            yield ""
        elif stripped == "//" or stripped.startswith("// "):
            mark = "///<" if indent == column else "///"
            yield " " * indent + mark + plain_text(stripped[2:])
            continue
        elif (found := TRAILING.match(line)) and not found[1].lstrip().startswith(("}", "#")):
            column = len(found[1]) + 2
            yield f"{found[1]}  ///< {plain_text(found[2])}"
            continue
        else:
            yield line
        column = None


def label(page, heading=""):
    """Doxygen's name of a page, or of a heading in it."""
    name = "mainpage" if page == ROOT / "README.md" else str(page.relative_to(ROOT).with_suffix(""))
    return re.sub(r"[^A-Za-z0-9-]", "_", f"{name}_{heading}" if heading else name)


def is_public(path):
    """Whether the reference has it: TASUKI_HEADERS is the folder that is tasuki/ for users."""
    headers = pathlib.Path(os.environ.get("TASUKI_HEADERS", ""))
    return path.suffix == ".hpp" and (headers / path.relative_to(ROOT)).is_file()


def link(text, target, title, page):
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return f"[{text}]({target}{title})"
    path, _, heading = target.partition("#")
    aim = (page.parent / path).resolve() if path else page
    if aim.suffix == ".md":
        name = label(aim, heading)
        return f"[{text}](@ref {'index' if name == 'mainpage' else name})"
    shown = aim.relative_to(ROOT)
    if is_public(aim):
        return f"[{text}](@ref tasuki/{shown})"
    return text if text.strip("`/") == str(shown) else f"{text} (`{shown}`)"


def prose(text, page):
    """A paragraph. Its code stays as it is."""
    spans = []

    def hide(code):
        # Doxygen has no code over several lines, and takes `...' for a quotation.
        span = code[0].replace("\n", " ")
        spans.append(f"`{span}`" if "'" in span and not span.startswith("``") else span)
        return f"\0{len(spans) - 1}\0"

    def show(text):
        return re.sub(r"\0(\d+)\0", lambda found: spans[int(found[1])], text)

    def lead(found):
        mark, text, target, title = found.groups()
        if mark:  # Doxygen finds images by their names
            return f"![{text}]({pathlib.PurePosixPath(target).name}{title})"
        return link(show(text), target, title, page)
    return show(LINK.sub(lead, test_links().CODE.sub(hide, text)))


def page(path, text):
    outside = {number for number, _ in test_links().lines_outside_fences(text)}
    names = test_links().anchors(text)
    made, paragraph = [], []
    title = True
    for number, line in [*enumerate(text.splitlines(), 1), (0, "")]:
        if number in outside and line.strip():
            if test_links().HEADING.match(line):
                name = next(names)
                line = f"{line.rstrip()} {{#{label(path, '' if title else name)}}}"
                title = False
            paragraph.append(line)
            continue
        if paragraph:
            made.append(prose("\n".join(paragraph), path))
            paragraph = []
        if number:
            made.append(line)
    return "\n".join(made) + "\n"


def test_links():
    """Loaded for pages alone, because that takes longer than a header."""
    sys.path.insert(0, str(ROOT / "tests/scripts"))
    sys.dont_write_bytecode = True
    return importlib.import_module("test_links")


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    text = path.read_text()
    sys.stdout.write(page(path, text) if path.suffix == ".md" else header(text))


if __name__ == "__main__":
    main()
