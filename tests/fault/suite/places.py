"""Where jobs run: four ranks on this machine, or two on each of two nodes of network namespaces."""
import pathlib
import shlex
import socket
import subprocess

from jobs import check

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLUSTER = ROOT / "tests/cluster/run.sh"
HOSTFILES = ROOT / "hostfiles"


class OneNode:
    """Ranks share the cores with others, so they are not bound."""
    name = "one node"
    nodes = 1

    def host(self, rank):
        return socket.gethostname()

    def mpirun(self, program, np=4, options=()):
        """The words that start a program as README.md says."""
        return ["mpirun", "-np", np, "--oversubscribe", "--bind-to", "none", *options, *program]

    def supervised(self, supervisor, flags, program, np=4):
        return [supervisor, "-np", np, *flags, *program]


class TwoNodes:
    """With the settings that hostfiles/README.md says."""
    name = "two nodes"
    nodes = 2

    def host(self, rank):
        return "node1" if rank < 2 else "node2"

    def mpirun(self, program, np=4, options=(), cluster=()):
        return [CLUSTER, "--slots", "2,2", "--np", np, "--tune", HOSTFILES / "mca-params.conf",
                "--launch-agent", f"'{HOSTFILES}'/start_orted", *cluster, "--", *options, *program]

    def supervised(self, supervisor, flags, program, np=4):
        words = [supervisor, "-np", np, "--hostfile", "/run/hostfile", *flags, *program]
        return [CLUSTER, "--slots", "2,2", "--shell", "--",
                "exec " + " ".join(shlex.quote(str(word)) for word in words)]


def node2(job, *command):
    """Runs a command of iproute2 beside the nodes of a job: the bridge is in namespace `switch`."""
    inside = [p for p in job.all_processes() if "--inside" in p.words and p.name != "unshare"]
    check(inside, "the job has no nodes (any more)")
    ran = subprocess.run(["nsenter", "-t", str(inside[0].pid), "-m", "-n", "-p", *command],
                         capture_output=True, text=True, timeout=10)
    check(ran.returncode == 0, f"{' '.join(command)}: {ran.stderr[:200]}")


def cut(job):
    node2(job, "ip", "-n", "switch", "link", "set", "node2", "down")


def mend(job):
    node2(job, "ip", "-n", "switch", "link", "set", "node2", "up")
