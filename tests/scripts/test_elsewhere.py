#!/usr/bin/env python3
"""A clone builds the same wherever it lies, and from ccache what another clone has compiled.

The other place has the names of folders that mean something inside the source tree, and characters
that mean something to shells, CMake and regular expressions, or are not ASCII.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from checkout import ROOT, ccache_folder, ccache_results, copy_checkout

sys.path.insert(0, str(ROOT / "scripts"))
from compile_commands import read_commands  # noqa: E402

# Groups of sources, and one that is compiled alone.
OBJECTS = ["CMakeFiles/tasuki_core.dir/groups/tasuki_core_0.cpp.o",
           "CMakeFiles/tasuki_communicator.dir/groups/tasuki_communicator_0.cpp.o",
           "CMakeFiles/tasuki_communicator.dir/communicator/kinds/naive.cpp.o",
           "apps/CMakeFiles/train_mnist.dir/train_mnist.cpp.o",
           "tests/nn/CMakeFiles/test_nn.dir/__/__/groups/test_nn_0.cpp.o"]
# The only source that may know where it lies (tests/support/paths.hpp).
KNOWS_ITS_FOLDER = "tests/support/paths.cpp"
# Without settings of the user's.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("CCACHE_") and not name.endswith("_COMPILER_LAUNCHER")}


def configure(clone, *options, **environment):
    done = subprocess.run(["cmake", "--preset", "release", *options], cwd=clone,
                          env={**ENVIRONMENT, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def launchers(clone):
    """What CMake has written for ninja: its lines that name the compiler's launcher."""
    text = (clone / "build/CMakeFiles/rules.ninja").read_text()  # until CMake 3.27
    text += (clone / "build/build.ninja").read_text()  # later: variables LAUNCHER
    return "".join(sorted({f"{line.strip()} \n" for line in text.splitlines()
                           if re.match(r" +(command|LAUNCHER) = ", line)}))


def commands(clone, build="build"):
    return read_commands(clone / build)


def files(folder):
    return {path.relative_to(folder) for path in folder.rglob("*")
            if path.relative_to(folder).parts[0] != "build"}


class Elsewhere(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name).resolve()
        if shutil.which("ccache"):  # this machine's build has filled it
            ENVIRONMENT["CCACHE_DIR"] = ccache_folder()
        cls.clones = [cls.work / "here", cls.work / "cuda/cpu/tests/x y (+1) ü & 木's"]
        for clone in cls.clones:
            copy_checkout(clone)
        cls.files = files(cls.clones[0])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(configure, cls.clones))

    def test_the_same_sources_are_compiled(self):
        here, there = ([pathlib.Path(os.path.relpath(c["file"], clone)) for c in commands(clone)]
                       for clone in self.clones)
        self.assertEqual(here, there)
        self.assertIn(pathlib.Path("tensor/tensor.cpp"), there)

    def test_nothing_that_is_compiled_knows_its_folder(self):
        there = self.clones[1]
        told = [c["file"] for c in commands(there)
                for word in c["command"].replace("\\", "").split(" -")
                if str(there) in word and not word.startswith(("I", "isystem ", "c ", "x cu "))]
        self.assertEqual(told, [str(there / KNOWS_ITS_FOLDER)],
                         "tasuki_test_paths() (cmake/TasukiTest.cmake) gives paths to tests")

    @unittest.skipUnless("TASUKI_BUILD" in os.environ, "TASUKI_BUILD=FOLDER names no finished build")
    def test_generated_sources_do_not_know_their_folder(self):
        build = pathlib.Path(os.environ["TASUKI_BUILD"]).resolve()
        generated = {pathlib.Path(c["file"]) for c in commands(build.parent, build.name)
                     if pathlib.Path(c["file"]).is_relative_to(build)}
        self.assertIn(build / "version.cpp", generated)
        for source in generated:
            self.assertNotIn(str(ROOT), source.read_text(), source)

    def tearDown(self):
        for clone in self.clones:
            self.assertEqual(files(clone), self.files, "sources may lie where nothing can be written")

    @unittest.skipUnless(shutil.which("ccache"), "ccache is not installed")
    def test_a_second_clone_compiles_nothing(self):
        log = self.work / "statslog"
        for clone in self.clones:
            log.unlink(missing_ok=True)
            subprocess.run(["ninja", "-C", clone / "build", *OBJECTS], check=True,
                           env={**ENVIRONMENT, "CCACHE_STATSLOG": str(log)}, capture_output=True)
        results = ccache_results(log)
        others = [source for source in results if "precompiled_" not in source]
        self.assertEqual(len(others), len(OBJECTS))
        for kind in ("library", "program"):
            self.assertIn(f"CMakeFiles/tasuki_precompiled_{kind}.dir/cmake_pch.hxx.cxx", results)
        for source, words in results.items():
            self.assertIn("direct_cache_hit", words, source)

    @unittest.skipUnless(shutil.which("ccache"), "ccache is not installed")
    def test_a_base_directory_and_a_launcher_of_the_users_stay(self):
        here = self.clones[0]
        self.assertIn(f"CCACHE_BASEDIR={here} ", launchers(here))
        configure(here, CCACHE_BASEDIR="/")
        self.assertNotIn("CCACHE_BASEDIR", launchers(here))
        self.assertIn(shutil.which("ccache"), launchers(here))
        configure(here, "-DCMAKE_CXX_COMPILER_LAUNCHER=nice", "-DCMAKE_CUDA_COMPILER_LAUNCHER=nice")
        self.assertIn("= nice ", launchers(here))
        self.assertNotIn("ccache", launchers(here))
        configure(here, "-UCMAKE_*_COMPILER_LAUNCHER")  # as the other tests expect it


if __name__ == "__main__":
    unittest.main()
