"""The folders of the library and of the programs, and what uses what; arrows that follow from
others are left out."""
import re

from tables import ROOT


def uses():
    """{folder: folders that it may include}, by CMakeLists.txt. program/, apps/ and tools/ see all
    that the library has."""
    found = {}
    text = re.sub(r"#.*", "", (ROOT / "CMakeLists.txt").read_text())
    for name, arguments in re.findall(r"tasuki_layer\(\s*(\w+)([^)]*)\)", text):
        named = re.search(r"USES\s+([\w\s]*?)(?:\s+(?:LINK|SINGLY)|$)", arguments.strip())
        found[name] = named[1].split() if named else []
    found["program"] = list(found)
    found["apps"] = ["program"]
    found["tools"] = ["program", "apps"]
    return found


def reach(graph, start):
    """All that `start` uses, directly or through others."""
    seen, left = set(), list(graph[start])
    while left:
        folder = left.pop()
        if folder not in seen:
            seen.add(folder)
            left += graph[folder]
    return seen


def source():
    graph = uses()
    text = ('digraph folders {\n  rankdir=LR; ranksep=0.45; nodesep=0.2; bgcolor=transparent;\n'
            '  node [shape=box, style=rounded, fontname="sans-serif", fontsize=13, height=0.35];\n'
            '  edge [arrowsize=0.6];\n')
    for folder, used in graph.items():
        text += f'  {folder} [label="{folder}/"];\n'
        for other in sorted(used):
            if not any(other in reach(graph, each) for each in used if each != other):
                text += f"  {folder} -> {other};\n"
    return text + "}\n"
