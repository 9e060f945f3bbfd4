#!/usr/bin/env python3
"""The commands of README.md and of the pages it names, word by word and in their order, in a fresh copy
of the checkout: as whoever runs this test and, where that is root, as nobody, too.

COMMANDS has all of them, so that one which is added to these pages fails here until it says what runs
it or why nothing does. What trains is ended after an epoch; after quickstart.sh there is a little of
Fashion-MNIST where the programs look before they take all of it. What needs several machines runs on
nodes made of network namespaces, which have the names of hostfiles/two_nodes. In them a user is root,
too.

quickstart.sh builds there from what ccache has of this machine's build; where that is nothing, it
would take minutes, and the test skips itself. The copy's folders have names that mean something inside
the source tree, and a space.
"""
import gzip
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

from checkout import ROOT, ccache_folder, ccache_results, copy_checkout, patience

PROBE = "CMakeFiles/tasuki_core.dir/groups/tasuki_core_0.cpp.o"
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
# The table's first row and its loss; the map of ranks before it has a host's name there.
FIRST_EPOCH = re.compile(rb"^ *1 +(\d+\.\d+)", re.MULTILINE)
AS_ROOT = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


def commands_of(page):
    """The lines of a page's blocks that are neither C++ nor output, without their comments."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", (ROOT / page).read_text(),
                        re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+# .*", "", line).strip() for language, block in blocks
            if language not in ("cpp", "text") for line in block.splitlines()]


def end(job, signals):
    """Sends them to a process and its group, one after the other, until it ends."""
    for number, wait in zip([*signals, signal.SIGKILL], [0.5] * (len(signals) - 1) + [20, None]):
        try:
            os.killpg(job.pid, number)
        except ProcessLookupError:
            pass
        try:
            job.wait(wait)
            return
        except subprocess.TimeoutExpired:
            pass


class Reader:
    """Someone who types the commands of a page, in the copy of the checkout."""

    def __init__(self, clone, environment, prefix):
        self.clone, self.environment, self.prefix = clone, environment, prefix
        self.losses = []  # of the commands' first epochs

    def words(self, line, nodes):
        if nodes == 0:
            return [*self.prefix, "bash", "-c", line]
        return [*self.prefix, "tests/cluster/run.sh", "--nodes", str(nodes), "--shell", "--",
                f"{AS_ROOT}\n{line}"]

    def run(self, line, limit=60, nodes=0, variables=None):
        """What a command prints until it ends; None if this machine cannot have such nodes."""
        done = subprocess.run(self.words(line, nodes), cwd=self.clone,
                              env={**self.environment, **(variables or {})},
                              capture_output=True, text=True, timeout=limit * patience())
        if nodes and done.returncode == 77:
            print(f"{line}: {done.stdout}")
            return None
        if done.returncode != 0:
            raise AssertionError(
                f"{line}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run_until(self, line, is_enough, nodes=0):
        """Ends a command once what it has printed is enough; whether it was, and what it printed."""
        job = subprocess.Popen(self.words(line, nodes), cwd=self.clone, env=self.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
        said, limit = b"", time.monotonic() + 120 * patience()
        try:
            while not is_enough(said) and time.monotonic() < limit:
                if select.select([job.stdout], [], [], 0.1)[0]:
                    chunk = os.read(job.stdout.fileno(), 4096)
                    if not chunk:
                        break
                    said += chunk
        finally:
            # tasuki-run would save on the first one.
            end(job, [signal.SIGTERM] * (1 if nodes else 2))
            job.stdout.close()
        return is_enough(said), said.decode(errors="replace")

    def trains(self, line, nodes=0):
        return self.run_until(line, FIRST_EPOCH.search, nodes)


check = unittest.TestCase()  # for its assertions
check.maxDiff = None


def builds_and_trains(reader, line):
    said = reader.run(line, limit=300)
    check.assertTrue(FIRST_EPOCH.search(said.encode()), said)
    shown = [line.strip() for line in said.splitlines()]
    check.assertIn(commands_of("README.md")[2], shown)
    have_less_data(pathlib.Path(reader.environment["HOME"]) / ".cache/tasuki/mnist")


def have_less_data(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in ("train", 3000), ("t10k", 500):
        for kind, header, size in ("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1):
            name = f"{part}-{kind}-ubyte.gz"
            with gzip.open(f"/usr/share/datasets/fashion-mnist/{name}") as source:
                values = source.read(header + count * size)
            (folder / name).write_bytes(
                gzip.compress(values[:4] + struct.pack(">i", count) + values[8:], 1))


def trains(reader, line):
    trained, said = reader.trains(line)
    check.assertTrue(trained, f"{line}\n{said}")
    check.assertIn(f"COMM_WORLD): {(re.search('-np ([0-9]+)', line) or [0, 1])[1]}\n", said)
    reader.losses.append(float(FIRST_EPOCH.search(said.encode())[1]))


def once(how):
    """Not as another user again, who has other commands that differ from this one only in what is computed."""
    def handle(reader, line):
        if not reader.prefix:
            how(reader, line)
    return handle


def trains_alike(reader, line):
    trains(reader, line)
    check.assertAlmostEqual(*reader.losses[-2:], delta=2e-4)


def trains_to_the_end(reader, line):
    check.assertRegex(reader.run(line, limit=120), r"(?m)^ *3 +\d")


def trains_alike_three_times(reader, line):
    losses = [float(loss) for loss in re.findall(
        r"elapsed_time *\n(?:iteration .*\n)* *1 +(\d+\.\d+)", reader.run(line, limit=240))]
    check.assertEqual(len(losses), 3)
    check.assertAlmostEqual(min(losses), max(losses), delta=2e-4)


def sums_up(reader, line):
    check.assertEqual(len(re.findall(r"(?m)^after, rank \d: 10 100 1000$", reader.run(line))), 4)


def runs_on_nodes(reader, line):
    """77: this machine cannot have such nodes."""
    reader.run(f"{line} || test $? = 77", limit=120)


def predicts(reader, line):
    if (reader.clone / "two.json").exists():
        check.assertRegex(reader.run(line), r"(?m)^ +32 +32 ")


def trains_on_images(reader, line):
    folder = reader.clone / "DIR"
    for place in "train/cat", "train/dog", "test/cat", "test/dog":
        (folder / place).mkdir(parents=True, exist_ok=True)
        for number in range(4):
            write_png(folder / place / f"{number}.png", side=70, grey=40 * number)
    trains(reader, line)


def write_png(path, side, grey):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes([grey]) * side) * side
    path.write_bytes(b"\x89PNG\r\n\x1a\n" +
                     chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def trains_on_nodes(reader, line):
    trained, said = reader.trains(line, nodes=2)
    if said.startswith("skipped: "):
        print(f"{line}: {said}")
        return
    check.assertTrue(trained, f"{line}\n{said}")
    check.assertNotIn("Unable to locate", said)  # the file of --tune, without which mpirun goes on
    for rank in "0  node1", "1  node1", "2  node2", "3  node2":
        check.assertRegex(said, rf"(?m)^ +{rank} ")


def prints_on_nodes(expected):
    def handle(reader, line):
        said = reader.run(line, nodes=2)
        if said is not None:
            check.assertRegex("".join(sorted(said.splitlines(True))), rf"(?s)^{expected}$")
    return handle


def ends_well(reader, line):
    reader.run(line, limit=120)


def builds(reader, line):
    """From what ccache has of this source in folders of other names."""
    work = pathlib.Path(reader.environment["HOME"]).parent
    reader.run(line, limit=240, variables={"CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                                           "CCACHE_BASEDIR": str(work)})


def builds_some(reader, line):
    """What the commands after it run; tests/install/run.sh builds all, which takes minutes."""
    builds(reader, f"{line} --target my_training allreduce")


def trains_my_network(reader, line):
    said = reader.run(line)
    check.assertIn("Using double communicator", said)
    check.assertRegex(said, r"(?m)^ *5 ")


def lists_commands(reader, line):
    """One a line, below the names of the parts of the experiment."""
    commands = [said for said in reader.run(line).splitlines() if not said.startswith("# [")]
    check.assertGreater(len(commands), 1)
    for command in commands:
        check.assertRegex(command, r"^(mpirun|tests/cluster/run\.sh) .*/build/apps/train_mnist --")


def lists_its_commands(reader, line):
    """All its runs would take minutes."""
    lists_commands(reader, f"{line} --dry-run")


def trains_a_row(reader, line):
    results = reader.clone / "results"
    shutil.rmtree(results, ignore_errors=True)
    trained, said = reader.run_until(line, lambda _: any(
        FIRST_EPOCH.search(log.read_bytes()) for log in results.rglob("output.log")))
    check.assertTrue(trained, f"{line}\n{said}")


def copies_settings(reader, line):
    ends_well(reader, line)
    home = pathlib.Path(reader.environment["HOME"])
    for folder in (home / ".openmpi", home / ".prte"):
        check.assertTrue((folder / "mca-params.conf").exists(), folder)
        # Commands before this one come again for another user of this home; the file excludes
        # networks, and mpirun accepts that only without the list of networks from run.sh.
        shutil.rmtree(folder)


def output_of(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def open_mpi_version():
    found = re.search(r"\(Open MPI\) (\d+)", output_of("mpirun", "--version"))
    return int(found[1]) if found else 0


ON_SLOW_NODES = "tests/cluster/run.sh --nodes 2 --slots 2 --rate 1gbit --"
ON_TWO_MACHINES = "build/apps/tasuki-run --hostfile hostfiles/two_nodes build/apps/train_mnist"

NAMES_OF_OPEN_MPI_4 = {"btl_vader_single_copy_mechanism", "odls_base_sigkill_timeout",
                       "orte_keep_fqdn_hostnames", "plm_rsh_args"}
NAMES_OF_OPEN_MPI_5 = {"prte_if_exclude", "prte_if_include", "smsc"}

# Each command, and what runs it or why it is not run.
COMMANDS = {
    "README.md": [
        ("./quickstart.sh", builds_and_trains),
        ("./test.sh", "it runs this test"),
        ("build/apps/tasuki-run -np 4 build/apps/train_mnist", trains),
        (ON_TWO_MACHINES, trains_on_nodes),
        ("build/apps/train_mnist", trains),
        ('cmake --install build --prefix "$HOME/tasuki-installed"', ends_well),
        ('cmake -S examples -B build-mine -DCMAKE_PREFIX_PATH="$HOME/tasuki-installed"', builds),
        ("cmake --build build-mine", builds_some),
        ("build/apps/tasuki-run -np 2 build-mine/my_training --communicator double", trains_my_network),
    ],
    "docs/tutorial.md": [
        ("./quickstart.sh", "README.md has it, too"),
        ("scripts/get_data.sh mnist", "tests need no network"),
        ("build/apps/train_mnist --epoch 3 --threads 1 --out one", trains),
        ("build/apps/tasuki-run -np 2 build/apps/train_mnist --epoch 3 --threads 1 --out two",
         trains_to_the_end),
        ("build/apps/tasuki-run -np 4 build/apps/train_mnist --epoch 3 --threads 1 --out four", once(trains)),
        ("for n in 1 2 4; do build/apps/tasuki-run -np $n build/apps/train_mnist --epoch 3 --threads 1"
         " --shards 4 --global-batch 400 --out same-$n; done", once(trains_alike_three_times)),
        ('cmake --install build --prefix "$HOME/tasuki-installed"', "README.md has it, too"),
        ('cmake -S examples -B build-mine -DCMAKE_PREFIX_PATH="$HOME/tasuki-installed"', "README.md has it, too"),
        ("cmake --build build-mine --target allreduce my_training", builds),
        ("build/apps/tasuki-run -np 4 build-mine/allreduce naive", sums_up),
        *((f"{ON_SLOW_NODES} build/apps/train_mnist --max-iterations 60 --threads 1 --communicator {name}"
           f" --out slow-{name}", how) for name, how in (
               ("naive", "the last one differs in a word"), ("flat", "the last one differs in a word"),
               ("hierarchical", once(runs_on_nodes)))),
        ("build/apps/tasuki-experiment experiments/slow_link.ini", lists_its_commands),
        (f"{ON_SLOW_NODES} build/apps/tasuki-bench-allreduce"
         " --communicator naive,flat,hierarchical --min 7184040 --max 7184040 --iterations 10"
         " --link-rate 1000", once(runs_on_nodes)),
        ("build/apps/train_mnist --threads 1 --max-iterations 60 --trace one.json --out trace-1",
         ends_well),
        ("tests/cluster/run.sh --nodes 2 --slots 1 --rate 1gbit -- build/apps/train_mnist --threads 1"
         " --max-iterations 60 --exchange whole --trace two.json --out trace-2", runs_on_nodes),
        ("build/apps/tasuki-simulate --single one.json --trace two.json --batch 100"
         " --ranks 1,2,4,8,16,32", predicts),
        ("build/apps/tasuki-run -np 2 build/apps/train_mnist --epoch 3 --threads 1 --out stopped",
         "tests/apps/tasuki_run_signals_test.cpp stops jobs"),
        ("build/apps/tasuki-run -np 2 build/apps/train_mnist --threads 1 --resume stopped",
         "nothing was stopped"),
        ("scripts/compare_logs.py stopped/log two/log main/loss each 0", "nothing was resumed"),
        ("head -n 20 two/log", ends_well),
        ("build/apps/tasuki-predict two --quiet", ends_well),
        ("cat hostfiles/two_nodes", ends_well),
        ("ssh node2 hostname", prints_on_nodes("node2\n")),
        (f"{ON_TWO_MACHINES} --dry-run", "hostfiles/README.md has it with mpirun"),
        (f"{ON_TWO_MACHINES} --epoch 1 --threads 1 --out machines", trains_on_nodes),
        ("build/apps/tasuki-run -np 2 build-mine/my_training --threads 1 --out mine", ends_well),
        ("rm -r one two four same-1 same-2 same-4 slow-* trace-1 trace-2 stopped machines mine"
         " results/slow_link one.json two.json build-mine ~/tasuki-installed", "this test makes only some of them"),
    ],
    "docs/training.md": [
        *((f"build/apps/tasuki-run -np 4 build/apps/train_mnist --dataset {line}",
           "tests/apps/array_files_test.cpp trains on such files") for line in (
            "hdf5 --data run.h5 --fields x=/images,t=/labels --test-data test.h5",
            "npy --data DIR --fields x=x.npy,t=t.npy",
            "npy --data mnist.npz --fields x=x_train,t=y_train --test-fields x=x_test,t=y_test")),
        ("build/apps/tasuki-run -np 4 build/apps/train_cifar --dataset images --data DIR --image-size 64",
         once(trains_on_images)),
        ("build/apps/tasuki-run -np 4 build/apps/train_imagenet --data DIR --arch resnet50",
         "tests/apps/imagenet_test.cpp trains smaller networks"),
        ("build/apps/tasuki-run -np 4 build/apps/train_imagenet train.txt val.txt --root DIR -a alex",
         "tests/apps/imagenet_test.cpp reads smaller lists"),
        *((f"chainer.serializers.{line}", "scripts/check_chainer.sh does it with Chainer") for line in (
            'load_npz("result/snapshot_iter_600", model, path="updater/model:main/")',
            'load_npz("result/snapshot_iter_600", optimizer, path="updater/optimizer:main/")',
            'save_npz("weights.npz", model)')),
        ("build/apps/tasuki-run -np 1 build/apps/train_mnist --shards 12 --global-batch 1200", once(trains)),
        ("build/apps/tasuki-run -np 4 build/apps/train_mnist --shards 12 --global-batch 1200", once(trains_alike)),
    ],
    "docs/experiments.md": [
        ("build/apps/tasuki-experiment experiments/mnist_scaling.ini --dry-run", lists_commands),
        ("build/apps/tasuki-experiment experiments/mnist_scaling.ini", trains_a_row),
    ],
    "hostfiles/README.md": [
        (ON_TWO_MACHINES, "README.md has it, too"),
        ("ssh-keygen -t ed25519", "it makes a key in the user's home"),
        ("ssh-copy-id node2", "it asks for a password"),
        ("ssh node2 true", prints_on_nodes("")),
        ("apt-get install nfs-kernel-server", "it changes the machine"),
        ("echo '/home/me/tasuki 192.168.1.0/24(rw,sync,no_subtree_check)' >> /etc/exports"
         " && exportfs -ra", "it changes the machine"),
        ("ssh node2 hostname", prints_on_nodes("node2\n")),
        ("ssh node2 which mpirun", prints_on_nodes("/.*/mpirun\n")),
        ("mpirun --hostfile hostfiles/two_nodes -np 4 hostname",
         prints_on_nodes("node1\nnode1\nnode2\nnode2\n") if open_mpi_version() < 5
         else "Open MPI 5.0.7 does not always end after so short a program"),
        ("mpirun --hostfile hostfiles/two_nodes -np 4 build/apps/train_mnist --dry-run",
         prints_on_nodes(".* 3  node2 .*")),
        ("build/apps/tasuki-run --hostfile hostfiles/two_nodes build/apps/tasuki-doctor",
         prints_on_nodes(".*ok +Tasuki: .*")),
        (ON_TWO_MACHINES, "README.md has it, too"),
        ("mpirun --tune hostfiles/mca-params.conf"
         " --launch-agent \"'$PWD'/hostfiles/start_orted\" --hostfile hostfiles/two_nodes -np 4"
         " build/apps/train_mnist",
         trains_on_nodes if open_mpi_version() < 5 else "Open MPI 5 refuses --tune"),
        ("mkdir -p ~/.openmpi ~/.prte && cp hostfiles/mca-params.conf ~/.openmpi"
         " && cp hostfiles/prte-mca-params.conf ~/.prte/mca-params.conf", copies_settings),
        ("mpirun --prtemca prte_launch_agent \"'$PWD'/hostfiles/start_orted\""
         " --hostfile hostfiles/two_nodes -np 4 build/apps/train_mnist",
         trains_on_nodes if open_mpi_version() >= 5 else "it is for Open MPI 5"),
        *((line, "it downloads and builds an Open MPI") for line in (
            "wget https://download.open-mpi.org/release/open-mpi/v4.1/openmpi-4.1.6.tar.bz2",
            "tar xf openmpi-4.1.6.tar.bz2 && cd openmpi-4.1.6",
            "./configure --prefix=$HOME/openmpi --with-cuda=/usr/local/cuda",
            'make -j"$(nproc)" install')),
    ],
}


class Pages(unittest.TestCase):
    def test_all_commands_are_known(self):
        for page, commands in COMMANDS.items():
            self.assertEqual(commands_of(page), [line for line, _ in commands], page)

    def test_open_mpi_has_the_parameters(self):
        """Open MPI ignores unknown names silently. Those of the other version are left out."""
        settings = "".join((ROOT / "hostfiles" / name).read_text()
                           for name in ("mca-params.conf", "prte-mca-params.conf"))
        page = (ROOT / "hostfiles/README.md").read_text()
        names = set(re.findall(r"^(?:# +)?(\w+) = ", settings, re.MULTILINE) +
                    re.findall(r"--mca\s+([a-z]\w+)", page) + re.findall(r"OMPI_MCA_([a-z]\w+)=", page))
        self.assertGreater(len(names), 12)
        of_others = NAMES_OF_OPEN_MPI_5 if open_mpi_version() < 5 else NAMES_OF_OPEN_MPI_4
        known = set(re.findall(r":param:(\w+):value:", output_of("ompi_info", "--all", "--parsable")))
        if open_mpi_version() >= 5:
            known |= set(re.findall(r'"(\w+)" \(', output_of("prte_info", "--all")))
        self.assertEqual(names - of_others - known, set())


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("ccache") or "CCACHE_DISABLE" in os.environ:
            raise unittest.SkipTest("there is no ccache, or it is disabled: building would take "
                                    "minutes")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        cls.work = pathlib.Path(folder.name).resolve()
        cls.clone = cls.work / "cuda/cpu/x y"
        copy_checkout(cls.clone)
        (cls.work / "home").mkdir()
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("OMPI_", "TASUKI_", "OMP_"))}
        cls.environment.update(TASUKI_SKIP_DEPENDENCIES="1", HOME=str(cls.work / "home"),
                               CCACHE_DIR=ccache_folder(), CCACHE_STATSLOG=str(cls.work / "log"))
        cls.reader = Reader(cls.clone, cls.environment, [])
        cls.reader.run("cmake --preset release")
        cls.reader.run(f"ninja -C build {PROBE}")
        if not all("direct_cache_hit" in words
                   for words in ccache_results(cls.work / "log").values()):
            raise unittest.SkipTest("ccache has nothing of this source: building would take minutes")

    def test_commands_in_their_order(self):
        self.read_pages(self.reader)
        if os.geteuid() == 0:  # the same as a user, who finds it built
            subprocess.run(["chown", "-R", "nobody:nogroup", self.work], check=True)
            self.read_pages(Reader(self.clone, {**self.environment, "CCACHE_DISABLE": "1"}, NOBODY))

    def read_pages(self, reader):
        for commands in COMMANDS.values():
            for line, how in commands:
                started = time.monotonic()
                if callable(how):
                    how(reader, line)
                    print(f"{time.monotonic() - started:5.1f} s  {line}", flush=True)

    def test_presets(self):
        self.assertIn('"asan"', self.reader.run("cmake --workflow --list-presets"))


if __name__ == "__main__":
    unittest.main()
