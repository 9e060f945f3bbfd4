#!/usr/bin/env python3
"""README.md's commands, word by word and in its order, in a fresh copy of the checkout.

quickstart.sh builds there from what ccache has of this machine's build; where that is nothing, it
would take minutes, and the test skips itself. The copy's folders have names that mean something inside
the source tree, and a space.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from checkout import ROOT, ccache_results, copy_checkout

PROBE = "CMakeFiles/tasuki_core.dir/core/error.cpp.o"
USER = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
FIRST_EPOCH = re.compile(rb"^ *1 ", re.MULTILINE)  # the table's first row


def commands_of(section):
    """The commands of a section's blocks without a language, and without their comments."""
    text = (ROOT / "README.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+# .*", "", line) for language, block in blocks if not language
            for line in block.splitlines()]


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("ccache"):
            raise unittest.SkipTest("ccache is not installed: building would take minutes")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        work = pathlib.Path(folder.name).resolve()
        cls.clone = work / "cuda/cpu/x y"
        copy_checkout(cls.clone)
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("OMPI_", "TASUKI_", "OMP_"))}
        cls.environment.update(TASUKI_SKIP_DEPENDENCIES="1", HOME=str(work / "home"),
                               CCACHE_DIR=cls.ccache_folder(), CCACHE_STATSLOG=str(work / "log"))
        cls.command("cmake --preset release", limit=60)
        cls.command(f"ninja -C build {PROBE}", limit=60)
        if not any("direct_cache_hit" in words for words in ccache_results(work / "log").values()):
            raise unittest.SkipTest("ccache has nothing of this source: building would take minutes")
        quickstart = commands_of("Two commands")[0]
        cls.quickstart = cls.command(quickstart, limit=300).stdout

    @classmethod
    def ccache_folder(cls):
        """This user's, though HOME is another."""
        return subprocess.run(["ccache", "--get-config", "cache_dir"], check=True,
                              capture_output=True, text=True).stdout.strip()

    @classmethod
    def command(cls, line, limit):
        done = subprocess.run(["bash", "-c", line], cwd=cls.clone, env=cls.environment,
                              capture_output=True, text=True, timeout=limit)
        if done.returncode != 0:
            raise AssertionError(f"{line}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def trains(self, lines, prefix, environment=()):
        """Whether the last line trains an epoch, which ends it; what it said."""
        job = subprocess.Popen([*prefix, "bash", "-c", "\n".join(lines)], cwd=self.clone,
                               env={**self.environment, **dict(environment)}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
        watch = subprocess.Popen(["sleep", "120"])  # then the job is ended below
        said = b""
        try:
            while chunk := os.read(job.stdout.fileno(), 4096):
                said += chunk
                if FIRST_EPOCH.search(said) or watch.poll() is not None:
                    break
        finally:
            watch.kill()
            watch.wait()
            try:
                os.killpg(job.pid, signal.SIGTERM)
                job.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            job.stdout.close()
        return FIRST_EPOCH.search(said), said.decode(errors="replace")

    def test_quickstart_trains_and_says_how_to_go_on(self):
        self.assertRegex(self.quickstart, r"(?m)^ *1 ")
        shown = [line.strip() for line in self.quickstart.splitlines()]
        as_root, plain, crowded = commands_of("Two commands")[2:5]
        self.assertEqual(as_root in shown, os.geteuid() == 0)
        self.assertTrue(plain in shown or crowded in shown, self.quickstart)

    def check_first_mpirun(self, prefix, environment, before):
        plain, crowded = commands_of("Two commands")[3:5]
        trained, said = self.trains([*before, plain], prefix, environment)
        if not trained:
            self.assertIn("not enough slots", said)
            trained, said = self.trains([*before, crowded], prefix, environment)
        self.assertTrue(trained, said)
        self.assertIn("COMM_WORLD): 4", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_first_mpirun_as_root(self):
        as_root, plain = commands_of("Two commands")[2:4]
        trained, said = self.trains([plain], [])
        self.assertFalse(trained)
        self.assertIn("attempt to run as root", " ".join(said.split()))
        self.check_first_mpirun([], {}, [as_root])

    def test_first_mpirun_as_a_user(self):
        if os.geteuid() != 0:
            self.check_first_mpirun([], {}, [])
            return
        subprocess.run(["chown", "-R", "nobody:nogroup", self.clone], check=True)
        self.addCleanup(subprocess.run, ["chown", "-R", "0:0", self.clone], check=True)
        self.check_first_mpirun(USER, {"HOME": str(self.clone)}, [])

    def test_own_training_program(self):
        install, *lines, train = commands_of("Your own training program")
        self.command(install, limit=60)
        for line in lines:
            self.command(line, limit=120)
        before = commands_of("Two commands")[2] + "\n" if os.geteuid() == 0 else ""
        said = self.command(before + train, limit=60).stdout
        self.assertTrue(said.startswith("double: "), said)
        self.assertRegex(said, r"(?m)^ *5 ")


if __name__ == "__main__":
    unittest.main()
