#!/usr/bin/env python3
"""Prints the notices of the Debian packages whose files are in a bundle (scripts/bundle.sh).

Standard input lists them. Each line has two fields with a tab between them: a file's name in the
bundle, and the path that it was copied from; or a library that was compiled into programs, and a
path of its package. The output lists names with their packages, then the packages' copyright files,
each once, and the licenses that these name in /usr/share/common-licenses. A file without a package
is listed as unknown; what has no notices is named on standard error.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

RULE = "=" * 80
LICENSES = "/usr/share/common-licenses"
NAMED_LICENSE = re.compile(LICENSES + r"/([A-Za-z0-9][A-Za-z0-9.+-]*[A-Za-z0-9])")


def dpkg_query(*arguments):
    """What dpkg-query prints of what it knows."""
    try:
        return subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


def spellings(path):
    """Paths by which a package may know the file: /lib may be a link to /usr/lib."""
    for each in (path, os.path.realpath(path)):
        plain = each.removeprefix("/usr")
        yield from (each, plain, "/usr" + plain)


def packages_of(paths):
    """The package that each path belongs to, without those that belong to none."""
    owners = {}
    wanted = sorted({each for path in paths for each in spellings(path)})
    for line in dpkg_query("-S", *wanted).splitlines():
        names, _, path = line.partition(": ")
        if not names.startswith("diversion by"):
            owners[path] = names.split(", ")[0]
    return {path: next(owners[each] for each in spellings(path) if each in owners)
            for path in paths if any(each in owners for each in spellings(path))}


def described(packages):
    """For each package: its name, its version, and the name and version of its source."""
    form = "${binary:Package}\t${Package}\t${Version}\t${source:Package} ${source:Version}\n"
    rows = dpkg_query("-W", "-f", form, *packages).splitlines() if packages else []
    return {key: (name, version, source)
            for binary, name, version, source in (row.split("\t") for row in rows)
            for key in (binary, name)}


def copyright_of(package):
    try:
        return pathlib.Path("/usr/share/doc", package, "copyright").read_text(errors="replace").strip()
    except OSError:
        return None


def columns(pairs):
    width = max((len(first) for first, _ in pairs), default=0)
    return "\n".join(f"{first:{width}}  {second}" for first, second in pairs)


def section(title, text):
    return f"\n\n{RULE}\n{title}\n{RULE}\n\n{text}"


def notices(listed, introduction):
    """The text, and the names without notices. `listed`: pairs of a name and a path."""
    owners = packages_of([path for _, path in listed])
    details = described(sorted(set(owners.values())))
    packages_by_text, rows, unknown = {}, [], []
    for name, path in sorted(listed):
        package, version, _ = details.get(owners.get(path), ("unknown", path, None))
        text = copyright_of(package) if path in owners else None
        if text is None:
            unknown.append(name)
        else:
            packages_by_text.setdefault(text, set()).add(package)
        rows.append((name, f"{package} {version}"))
    sources = sorted({(package, source) for package, _, source in details.values()})

    result = "\n\n".join([
        "THIRD-PARTY NOTICES", introduction,
        "What is not Tasuki's in this bundle, each with its Debian package, whose notices follow. A\n"
        "name without a folder is a library that is compiled into Tasuki's programs.", columns(rows),
        "The packages' sources, which Debian distributes (`apt-get source NAME=VERSION`):",
        columns(sources)])
    for text, packages in sorted(packages_by_text.items(), key=lambda entry: sorted(entry[1])):
        result += section("Notices of " + ", ".join(sorted(packages)), text)
    named = {name for text in packages_by_text for name in NAMED_LICENSE.findall(text)}
    for path in sorted({pathlib.Path(LICENSES, name).resolve() for name in named}):
        if path.is_file():
            result += section(f"The license {path.name}", path.read_text(errors="replace").strip("\n"))
    return result + "\n", unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("introduction", nargs="?", default="", help="the first paragraph")
    parser.error = lambda message: parser.exit(
        64, f"third_party_notices.py: {message}; --help says more\n")
    options = parser.parse_args()
    text, unknown = notices([tuple(line.split("\t")) for line in sys.stdin.read().splitlines()],
                            options.introduction)
    print(text, end="")
    if unknown:
        print(f"third_party_notices.py: no notices are known of {', '.join(unknown)}", file=sys.stderr)


if __name__ == "__main__":
    main()
