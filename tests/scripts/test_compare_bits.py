#!/usr/bin/env python3
"""scripts/compare_bits.py: equal versions are equal, and whatever else they compute is found."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from checkout import ROOT, patience

sys.path.append(str(ROOT / "scripts"))
import compare_bits

SCRIPT = ROOT / "scripts/compare_bits.py"
BUILD = pathlib.Path(os.environ["TASUKI_BUILD"]).resolve()
GIT = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
       "GIT_COMMITTER_EMAIL": "a@b"}

# Trains nothing: weights and the loss are numbers of steps. {0} is what a test adds to them.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys, time, zipfile
value_of = dict(zip(sys.argv[1:], sys.argv[2:]))
out, steps = pathlib.Path(value_of["--out"]), int(value_of["--max-iterations"])
resume = value_of.get("--resume")
weights, states, loss, keys = 0, 0, 0.5, ["elapsed_time"]
if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
    sys.exit()
done = int((pathlib.Path(resume) / "steps").read_text()) if resume else 0
{0}
log = [{{"iteration": step, "main/loss": loss + step, **dict.fromkeys(keys, time.time())}}
       for step in range(1, steps + 1)]
checkpoint = out / f"checkpoints/iter_{{steps}}"
checkpoint.mkdir(parents=True)
(checkpoint / "steps").write_text(str(steps))
(out / "log").write_text(json.dumps(log))
with zipfile.ZipFile(out / f"snapshot_iter_{{steps}}", "w") as snapshot:
    snapshot.writestr("updater/model:main/W.npy", f"weights {{weights + steps}}")
    snapshot.writestr("updater/optimizer:main/W/m.npy", f"states {{states + steps}}")
    snapshot.writestr("_snapshot_elapsed_time.npy", str(time.time()))
"""
FAKES = "mnist-1|lm-2"  # without nodes; the second is resumed


class CompareBits(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def version(self, text):
        """A folder whose programs are this text."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "build/apps").mkdir(parents=True)
        for program in ("train_mnist", "train_lm"):
            (folder / "build/apps" / program).write_text(text)
            (folder / "build/apps" / program).chmod(0o755)
        return folder

    def run_script(self, *arguments, script=SCRIPT):
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": str(temporary)})
        self.assertEqual([path.name for path in temporary.iterdir()
                          if path.name.startswith("compare_bits")], [])
        return done.returncode, done.stdout + done.stderr

    def rows(self, change, *flags):
        """What is said of each run of a version with this change, and the lines after the table."""
        code, text = self.run_script("--runs", FAKES, *flags, self.version(PROGRAM.format("")),
                                     self.version(PROGRAM.format(change)))
        header, *lines = text.splitlines()
        self.assertEqual(header.split(), ["run", "old", "new"])
        verdicts = [line.split()[-1] for line in lines[:4]]
        self.assertEqual(code, int(verdicts != ["equal"] * 4), text)
        return verdicts, lines[4:]

    def test_times_may_differ(self):
        verdicts, lines = self.rows("keys.append('time/forward/max')")
        self.assertEqual(verdicts, ["equal"] * 4)
        self.assertEqual(lines, ["4 equal"])

    def test_each_kind_of_result_is_compared(self):
        for change, said in (("weights = 1", "updater/model:main/W.npy: "),
                             ("states = 1", "updater/optimizer:main/W/m.npy: "),
                             ("loss = 0.75", "log 1: main/loss: 1.5 and 1.75, and 7 more"),
                             ("keys.append('lr')", "log 1: lr: none and ")):
            with self.subTest(change):
                verdicts, lines = self.rows(change)
                self.assertEqual(verdicts, ["different"] * 4)
                self.assertEqual(len(lines), 5, lines)  # one for each row, and the sum
                self.assertTrue(lines[0].startswith(f"mnist-1: {said}"), lines)

    def test_a_resumed_run_must_equal_an_uninterrupted_one(self):
        verdicts, lines = self.rows("weights = int(done > 0)")
        self.assertEqual(verdicts, ["equal", "equal", "different", "different"])
        self.assertEqual(lines[-1], "2 equal, 2 different")

    def test_a_new_version_may_not_refuse_old_checkpoints(self):
        verdicts, lines = self.rows("if resume and '-from-old' in resume:\n"
                                    "    sys.exit('error: unknown format')")
        self.assertEqual(verdicts, ["equal", "equal", "equal", "failed"])
        self.assertEqual(lines, ["lm-2, resumed from old: new failed: error: unknown format",
                                 "3 equal, 1 failed"])

    def test_a_run_that_hangs_is_killed_with_all_its_processes(self):
        """Alone, and under mpirun."""
        noted = self.folder / "noted"
        seconds = str(round(3 * patience()))
        verdicts, lines = self.rows(
            "if 'mnist-1' in str(out) or '-from-old' in str(resume):\n"
            "    import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            f"    print(os.getpid(), file=open({str(noted)!r}, 'a'), flush=True)\n"
            "    time.sleep(1000)", "--timeout", seconds)
        self.assertEqual(verdicts, ["failed", "equal", "equal", "failed"])
        self.assertEqual(lines[0], f"mnist-1: new failed: killed after {seconds} s")
        processes = noted.read_text().split()
        self.assertEqual(len(processes), 2)
        for _ in range(100):  # the dead may wait for their parent's notice
            left = [process for process in processes if pathlib.Path("/proc", process).exists()]
            if not left:
                break
            time.sleep(0.1)
        self.assertEqual(left, [])

    def test_results_are_kept_on_request(self):
        kept = self.folder / "kept"
        self.assertEqual(self.rows("", "--keep", kept)[0], ["equal"] * 4)
        self.assertTrue((kept / "lm-2/resumed-from-old/log").exists())
        old = self.version("")
        code, text = self.run_script("--runs", FAKES, "--keep", kept, old, old)
        self.assertEqual((code, text.count("\n")), (64, 1), text)

    def test_wrong_versions_are_refused_in_a_line(self):
        old = self.version("")
        for versions, said in (([old], "OLD and NEW expected"), ([old, self.folder], "build/apps"),
                               ([old, "no-such-commit"], "neither a folder nor a commit"),
                               ([old, old, "--runs", "nothing"], "mnist-1")):
            with self.subTest(said):
                code, text = self.run_script("--runs", FAKES, *versions)
                self.assertEqual((code, text.count("\n")), (64, 1), text)
                self.assertIn(said, text)

    def test_a_commit_is_built_and_its_checkout_removed(self):
        """A repository with the script and programs that are copied into place."""
        repository = self.folder / "repository"
        (repository / "scripts").mkdir(parents=True)
        for script in (SCRIPT, SCRIPT.with_name("small_runs.py")):
            shutil.copy2(script, repository / "scripts")
        shutil.copy2(ROOT / "CMakePresets.json", repository)
        (repository / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(fake LANGUAGES NONE)\n"
            "add_custom_target(train_mnist COMMAND ${CMAKE_COMMAND} -E copy\n"
            "  ${CMAKE_SOURCE_DIR}/train_mnist ${CMAKE_BINARY_DIR}/apps/train_mnist)\n")

        def git(*words):
            return subprocess.run(["git", *words], cwd=repository, env=GIT, check=True,
                                  capture_output=True, text=True).stdout

        def commit(change):
            (repository / "train_mnist").write_text(PROGRAM.format(change))
            (repository / "train_mnist").chmod(0o755)
            git("add", ".")
            git("commit", "-m", "a version")
        git("init")
        commit("")
        commit("states = 1")

        def compare(*versions):
            return self.run_script("--runs", "mnist-1", *versions,
                                   script=repository / "scripts/compare_bits.py")
        code, text = compare("HEAD", "HEAD")
        self.assertEqual((code, text.splitlines()[-1]), (0, "1 equal"), text)
        code, text = compare("HEAD~", "HEAD")
        self.assertEqual((code, text.splitlines()[-1]), (1, "1 different"), text)
        (repository / "CMakeLists.txt").write_text("message(FATAL_ERROR out of luck)\n")
        commit("")
        code, text = compare("HEAD~", "HEAD")
        self.assertEqual(code, 1)
        self.assertIn("compare_bits.py: HEAD cannot be built: CMake Error", text)
        self.assertEqual(len(git("worktree", "list").splitlines()), 1)

    def test_real_programs_equal_themselves_but_not_with_another_seed(self):
        here = self.folder / "here"
        here.mkdir()
        (here / "build").symlink_to(BUILD)
        code, text = self.run_script("--runs", FAKES, here, here)
        self.assertEqual((code, text.splitlines()[-1]), (0, "4 equal"), text)
        other = self.version(f'#!/bin/sh\nexec {BUILD}/apps/train_mnist "$@" --seed 2\n')
        code, text = self.run_script("--runs", "mnist-1", here, other)
        self.assertEqual((code, text.splitlines()[-1]), (1, "1 different"), text)

    def test_real_programs_take_the_flags_of_all_runs(self):
        compare_bits.write_data(self.folder)
        for run in compare_bits.RUNS:
            with self.subTest(run.name):
                flags = [word.format(data=self.folder) for word in run.flags.split()]
                done = subprocess.run([BUILD / "apps" / run.program, *compare_bits.FLAGS, *flags,
                                       "--out", self.folder / "out", "--dry-run"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
