#!/usr/bin/env python3
"""What quickstart.sh, test.sh and a user's flags make of a build folder, without building anything: a
`cmake` in front of CMake hands on what configures and only notes what builds."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from checkout import copy_checkout

CMAKE = """#!/bin/bash
for word; do
  [[ $word == --build ]] || continue
  mkdir -p build/apps
  printf '#!/bin/sh\\n' >build/apps/tasuki-run  # which quickstart.sh calls
  chmod +x build/apps/tasuki-run
  exit "${BUILD_ENDS_WITH:-0}"
done
hidden=${HIDDEN:-OFF}
exec CMAKE "$@" -DTASUKI_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python3=$hidden -DCMAKE_DISABLE_FIND_PACKAGE_GTest=$hidden
"""
MPIRUN = """#!/bin/sh
echo 'mpirun (An MPI of another kind) 9.9'
"""


class Configure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.clone = pathlib.Path(folder.name).resolve() / "clone"
        copy_checkout(cls.clone)
        programs = cls.clone.parent / "bin"
        programs.mkdir()
        for name, text in ("cmake", CMAKE.replace("CMAKE ", shutil.which("cmake") + " ", 1)), ("mpirun", MPIRUN):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        cls.environment = {name: value for name, value in os.environ.items()
                           if name not in ("CXXFLAGS", "CFLAGS")}
        cls.environment.update(PATH=f"{programs}:{os.environ['PATH']}", TASUKI_SKIP_DEPENDENCIES="1")

    def run_here(self, *words, code=0, **variables):
        done = subprocess.run(words, cwd=self.clone, env={**self.environment, **variables},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.errors = done.stderr
        return done.stdout

    def cached(self, name):
        cache = (self.clone / "build/CMakeCache.txt").read_text()
        return re.search(rf"(?m)^{name}:\w+=(.*)$", cache)[1]

    def commands(self, build="build"):
        """Of the library and the programs, by the files that they write."""
        listed = json.loads((self.clone / build / "compile_commands.json").read_text())
        # -Werror is test.sh's, and with GCC 12 a default.
        written = {re.search(r" -o (\S+)", each["command"])[1]: each["command"].replace(" -Werror", "")
                   for each in listed}
        return {output: command for output, command in written.items()
                if not output.startswith(("tests/", "bench/"))}

    def test_quickstart_needs_no_python_and_leaves_the_tests_of_test_sh(self):
        summary = self.run_here("./quickstart.sh", HIDDEN="ON")
        self.assertRegex(summary, r"(?m)^ *tests +off$")
        self.assertRegex(summary, r"(?m)^ *benchmarks +off$")
        of_quickstart = self.commands()

        # --fuzz leaves out the style; the build is said to fail, so that nothing is fuzzed.
        self.run_here("./test.sh", "--fuzz", "1", code=9, BUILD_ENDS_WITH="9")
        self.assertEqual(self.cached("TASUKI_BUILD_TESTS"), "ON")
        self.assertEqual(self.commands(), of_quickstart, "test.sh would compile again")

        summary = self.run_here("./quickstart.sh")
        self.assertRegex(summary, r"(?m)^ *tests +on$")
        self.assertEqual(self.cached("TASUKI_BUILD_BENCH"), "ON")
        self.assertEqual(self.commands(), of_quickstart)

        # Where configuring failed, nothing was built that could be lost.
        (self.clone / "build/build.ninja").unlink()
        self.assertRegex(self.run_here("./quickstart.sh", HIDDEN="ON"), r"(?m)^ *tests +off$")

    def configure(self, build, *flags, code=0, **variables):
        return self.run_here("cmake", "-G", "Ninja", "-B", build, "-DTASUKI_BUILD_TESTS=OFF",
                             "-DTASUKI_BUILD_BENCH=OFF", *flags, code=code, **variables)

    def test_what_cannot_be_built_is_refused_in_one_sentence(self):
        for build, flags, sentence in (
                ("build-static", ["-DBUILD_SHARED_LIBS=OFF"],
                 r"Tasuki's libraries are shared ones; leave out BUILD_SHARED_LIBS=OFF"),
                ("build[1]", [], r"Tasuki cannot be built below a folder whose name has \[: "
                                 rf"{self.clone}/build\[1\] for {self.clone}")):
            self.configure(build, *flags, code=1)
            self.assertEqual(self.errors.count("CMake Error"), 1, self.errors)
            self.assertRegex(" ".join(self.errors.split()), sentence)

    def test_the_summary_names_the_mpi_that_was_found(self):
        summary = self.configure("build-default")
        self.assertRegex(summary, r"(?m)^-- +MPI +\S.* \(MPI \d\.\d\)")
        self.assertNotIn("another kind", summary)
        mpirun = re.search(r"(?m)^-- +MPI +.*, (/.*)$", summary)
        if mpirun:
            self.assertEqual(pathlib.Path(mpirun[1]).parent,
                             pathlib.Path(shutil.which("mpicxx")).parent)
        # The one that the folder was configured with before is forgotten.
        other = self.clone.parent / "other"
        other.mkdir()
        (other / "mpicxx").symlink_to(shutil.which("mpicxx"))
        shutil.copy(self.clone.parent / "bin/mpirun", other)
        summary = self.configure("build-default", f"-DMPI_CXX_COMPILER={other}/mpicxx")
        self.assertRegex(summary, rf"(?m)^-- +MPI +.*, {other}/mpirun$")
        self.assertIn("-march=x86-64-v2", " ".join(self.commands("build-default").values()))

    @unittest.skipUnless(os.uname().machine == "x86_64", "there is no baseline for this processor")
    def test_a_processor_of_the_users_wins(self):
        for build, flags, variables in (
                ("build-variable", [], {"CXXFLAGS": "-march=x86-64-v3"}),
                ("build-type", ["-DCMAKE_CXX_FLAGS_RELEASE=-O3 -march=x86-64-v3"], {})):
            self.configure(build, *flags, **variables)
            # Loops for one kind of processor are only called on such.
            chosen = {re.findall(r"-march=(\S+)", command)[-1]
                      for output, command in self.commands(build).items()
                      if not re.search("_kernels_a[vm]x", output)}
            self.assertEqual(chosen, {"x86-64-v3"}, build)
            # Rounding does not depend on it.
            for command in self.commands(build).values():
                self.assertIn("-ffp-contract=", command)


if __name__ == "__main__":
    unittest.main()
