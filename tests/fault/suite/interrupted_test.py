#!/usr/bin/env python3
"""A run of the fault suite that is interrupted leaves no process, mount or file.

    interrupted_test.py BUILD
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from jobs import Process, wait_for

RUN = pathlib.Path(__file__).with_name("run.py")


def processes_of(folder):
    """All whose temporary files are there, which a run's processes inherit from it."""
    everyone = [Process(name) for name in os.listdir("/proc") if name.isdigit()]
    return [p for p in everyone if p.environment.get("TMPDIR") == folder and p.words]


def mounts_in(folder):
    return [line for line in pathlib.Path("/proc/mounts").read_text().splitlines()
            if f" {folder}/" in line]


def interrupt(build, number):
    with tempfile.TemporaryDirectory() as folder:
        case = "full-disk@1" if os.geteuid() == 0 else "killed@1"
        words = [sys.executable, RUN, "--build", build, case]
        run = subprocess.Popen(words, env={**os.environ, "TMPDIR": folder}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            def is_training():
                return run.poll() is not None or list(pathlib.Path(folder).rglob("iter_*"))
            wait_for(is_training, 180, "the first checkpoint")
            assert run.poll() is None, run.communicate()[0]
            assert len(processes_of(folder)) > 5, "ranks, mpirun and the run itself were not found"
            assert mounts_in(folder) or os.geteuid() != 0, "the mount was not found"
            run.send_signal(number)
            run.send_signal(number)  # impatient people do it twice
            said = run.communicate(timeout=90)[0]
        finally:
            run.kill()
        assert run.returncode == 128 + number, f"exit code {run.returncode}: {said}"
        left = [p.words for p in processes_of(folder)]
        assert not left, f"processes: {left}"
        assert not mounts_in(folder), mounts_in(folder)
        files = list(pathlib.Path(folder).iterdir())
        assert not files, f"files: {files}"


if __name__ == "__main__":
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        start = time.monotonic()
        interrupt(sys.argv[1], signal_number)
        print(f"{signal_number.name}: nothing is left after {time.monotonic() - start:.1f} s")
