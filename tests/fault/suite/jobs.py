"""Jobs of the fault suite: started, watched and ended by their processes.

Every process of a job is known by a mark in its environment, and on nodes by its process namespace
as well, whichever launcher started it. So a process that outlives its job is found on every node.
"""
import os
import pathlib
import re
import signal
import subprocess
import time
import uuid

MARK = "TASUKI_FAULT_SUITE"
# Beside these a cluster's nodes have processes of tests/cluster/run.sh.
LAUNCHERS = ("mpirun", "orted", "tasuki-run")
# What Open MPI 5 calls them.
NEW_NAMES = {"prterun": "mpirun", "prte": "mpirun", "prted": "orted"}
# For the last process of a job, after the first one.
SECONDS_TO_GO = 3


class Failure(Exception):
    """A case did not end as expected; the text says what was found."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def wait_for(condition, seconds, what):
    """The first result of `condition` that is true."""
    end = time.monotonic() + seconds
    while True:
        if result := condition():
            return result
        check(time.monotonic() < end, f"{what}: not within {seconds:.0f} s")
        time.sleep(0.01)


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


class Process:
    """A process as /proc shows it at one moment; the dead have no environment."""

    def __init__(self, pid):
        self.pid = int(pid)
        self.place = pathlib.Path("/proc", str(pid))
        self.environment = dict(entry.split("=", 1) for entry in
                                read(self.place / "environ").decode(errors="replace").split("\0")
                                if "=" in entry)
        self.words = read(self.place / "cmdline").decode(errors="replace").split("\0")[:-1]

    @property
    def name(self):
        name = os.path.basename(self.words[0]) if self.words else ""
        return NEW_NAMES.get(name, name)

    @property
    def rank(self):
        """Its rank, if it is one."""
        rank = self.environment.get("OMPI_COMM_WORLD_RANK", "")
        return int(rank) if rank.isdigit() else None

    def namespace(self):
        try:
            return os.readlink(self.place / "ns" / "pid")
        except OSError:
            return ""

    def send(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


class Job:
    """A program that was started with `words`, in a session of its own; all its processes end with
    the block: with Job(...) as job. What it writes is in `folder`, with Open MPI's own files, which
    stay when it is killed."""
    running = []  # those whose block has not ended

    def __init__(self, words, folder, programs, environment=None, limit=60):
        self.id = uuid.uuid4().hex
        Job.running.append(self)
        self.programs = LAUNCHERS + tuple(programs)
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err = folder / f"{self.id}.out", folder / f"{self.id}.err"
        self.start = time.monotonic()
        self.end_by = self.start + limit
        self.limit = limit
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, env={**os.environ, **(environment or {}), MARK: self.id,
                                             "OMPI_MCA_orte_tmpdir_base": str(folder),
                                             "PRTE_MCA_prte_tmpdir_base": str(folder),
                                             "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.gone(time.monotonic(), SECONDS_TO_GO)
        finally:
            self.kill_all()
            self.child.wait()
            Job.running.remove(self)

    def kill_all(self):
        """Ends what still runs, with the nodes."""
        for _ in range(100):
            processes = self.all_processes()
            if not processes:
                break
            for process in processes:
                process.send(signal.SIGKILL)
            time.sleep(0.05)

    def all_processes(self):
        """With what belongs to the nodes."""
        here = os.readlink("/proc/self/ns/pid")
        everyone = [Process(name) for name in os.listdir("/proc") if name.isdigit()]
        marked = [p for p in everyone if p.environment.get(MARK) == self.id and p.words]
        spaces = {p.namespace() for p in marked} - {here, ""}
        known = {p.pid for p in marked}
        return marked + [p for p in everyone if p.words and p.pid not in known and
                         spaces and p.namespace() in spaces]

    def processes(self):
        """Ranks, launchers and daemons on all nodes."""
        return [p for p in self.all_processes() if p.name in self.programs]

    def rank(self, number):
        """The process of a rank, as soon as there is one."""
        def found():
            return next((p for p in self.processes()
                         if p.rank == number and p.name not in LAUNCHERS), None)
        return wait_for(found, 30, f"start of rank {number}")

    def launcher(self, name="mpirun"):
        return wait_for(lambda: next((p for p in self.processes() if p.name == name), None), 30,
                        f"start of {name}")

    def text(self):
        return self.out.read_text(errors="replace") + self.err.read_text(errors="replace")

    def errors(self):
        return self.err.read_text(errors="replace")

    def has_ended(self):
        return self.child.poll() is not None

    def wait(self):
        """The exit code, when it has ended by itself."""
        try:
            return self.child.wait(max(0.1, self.end_by - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure(f"still running after {self.limit} s: {self.last_words()}") from None

    def gone(self, since, seconds):
        """Waits until no process of the job is left on any node; seconds after `since`."""
        while self.processes():
            left = [f"{p.name} {p.pid}" for p in self.processes()]
            check(time.monotonic() - since < seconds,
                  f"after {seconds:.0f} s there are still: {', '.join(left)}")
            time.sleep(0.02)
        return time.monotonic() - since

    def last_words(self):
        """Without what mpirun says between lines of hyphens."""
        text = re.sub(r"(?ms)^-{20,}$.*?^-{20,}$", "", self.text())
        lines = [line for line in text.splitlines() if line.strip()]
        return " / ".join(lines[-3:])[-400:]

    def expect_code(self, *codes):
        code = self.wait()
        check(code in codes, f"exit code {code}, expected {' or '.join(map(str, codes))}: "
                             f"{self.last_words()}")
        return code

    def expect_failure(self):
        check(self.wait() != 0, f"exit code 0: {self.last_words()}")

    def expect_said(self, *texts):
        """Each text once or more in what was written."""
        for text in texts:
            check(text in self.text(), f"'{text}' is not said: {self.last_words()}")

    def expect_named(self, rank, host):
        """One line of an error names this rank and its host."""
        lines = [line for line in self.errors().splitlines() if f"rank {rank} on {host}" in line]
        check(lines, f"no line names rank {rank} on {host}: {self.last_words()}")
