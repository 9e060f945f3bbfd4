"""Copies of the checkout that these tests belong to, for tests of what a fresh clone does, and how
long a command may take there."""
import os
import pathlib
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def patience():
    """How many times as long as usual a program may take beside the machine's other work."""
    return 1 + os.getloadavg()[0] / os.cpu_count()


def copy_checkout(destination):
    """Copies what git would commit or has committed, so that changes count as well, without .git."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        raise unittest.SkipTest(f"{ROOT} is not a git checkout, so what belongs to it is unknown")
    for name in filter(None, listed.stdout.split("\0")):
        if not os.path.lexists(ROOT / name):  # deleted, and not committed yet
            continue
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def ccache_folder():
    """This user's."""
    return subprocess.run(["ccache", "--get-config", "cache_dir"], check=True,
                          capture_output=True, text=True).stdout.strip()


def ccache_results(statslog):
    """What became of each source that ccache was asked for: {source: {words of ccache}}."""
    results = {}
    for line in statslog.read_text().splitlines():
        if line.startswith("# "):
            words = results.setdefault(line[2:], set())
        else:
            words.add(line)
    return results
