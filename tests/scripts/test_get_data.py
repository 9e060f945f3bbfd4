"""scripts/get_data.sh against a server on the loopback interface; needs no network.

The real checksums are those of data sets too large for a test, so most tests run a copy of the script
whose checksums are those of small made-up files.
"""
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent.parent / "scripts" / "get_data.sh"
IDX = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
       "t10k-labels-idx1-ubyte"]
CIFAR = {"cifar10": ("cifar-10-binary.tar.gz", "cifar-10-batches-bin",
                     [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]),
         "cifar100": ("cifar-100-binary.tar.gz", "cifar-100-binary", ["train.bin", "test.bin"])}


def md5(data):
    return hashlib.md5(data).hexdigest()


class GetData(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.served = self.work / "served"
        self.served.mkdir()
        self.target = self.work / "with a space" / "mnist"
        self.log = self.work / "requests"
        self.script = self.work / "get_data.sh"
        self.contents = {name: os.urandom(200_000) for name in IDX}
        text = SCRIPT.read_text()
        for name, data in self.contents.items():
            (self.served / f"{name}.gz").write_bytes(gzip.compress(data))
            # MNIST's come first in the script.
            text = re.sub(rf"[0-9a-f]{{32}} {name}\.gz", f"{md5(data)} {name}.gz", text, count=1)
        for kind in CIFAR:
            for name, data in self.make_cifar(kind).items():
                text, count = re.subn(rf"[0-9a-f]{{40}} {name}",
                                      f"{hashlib.sha1(data).hexdigest()} {name}", text)
                self.assertEqual(count, 1)
        self.script.write_text(text)
        shutil.copy(SCRIPT.with_name("usage.sh"), self.work)
        self.start_server()

    def make_cifar(self, kind):
        _, folder, names = CIFAR[kind]
        (self.work / folder).mkdir()
        contents = {name: os.urandom(10_000) for name in names}
        for name, data in contents.items():
            (self.work / folder / name).write_bytes(data)
        (self.work / folder / "readme.html").write_text("not wanted")
        self.pack_cifar(kind)
        return contents

    def pack_cifar(self, kind):
        archive, folder, _ = CIFAR[kind]
        with tarfile.open(self.served / archive, "w:gz") as tar:
            tar.add(self.work / folder, folder)

    def start_server(self):
        server = subprocess.Popen([sys.executable, HERE / "file_server.py", self.served, self.log],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.url = f"http://127.0.0.1:{server.stdout.readline().strip()}"

    def run_script(self, mode, name="mnist", path=None, mirror=None):
        environment = dict(os.environ, no_proxy="127.0.0.1", HOME=str(self.work),
                           TASUKI_MIRROR=mirror or f"{self.url}/{mode}")
        if path:
            environment["PATH"] = str(path)
        return subprocess.run(["/bin/bash", self.script, name, self.target], env=environment,
                              capture_output=True, text=True, timeout=60)

    def requests(self):
        return [line.split() for line in self.log.read_text().splitlines()]

    def without_curl(self):
        """A PATH on which curl cannot be found."""
        tools = self.work / "tools"
        tools.mkdir()
        for folder in ["/usr/bin", "/bin"]:
            for tool in pathlib.Path(folder).iterdir():
                if tool.name != "curl" and not (tools / tool.name).exists():
                    (tools / tool.name).symlink_to(tool)
        return tools

    def assert_complete(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, data in self.contents.items():
            self.assertEqual(gzip.decompress((self.target / f"{name}.gz").read_bytes()), data)
        self.assertFalse(self.target.with_name("mnist.partial").exists())

    def test_whole_download_then_nothing_to_do(self):
        self.assert_complete(self.run_script("plain"))
        self.assertEqual(len(self.requests()), 4)
        again = self.run_script("plain")
        self.assertEqual(again.returncode, 0)
        self.assertIn("already", again.stdout)
        self.assertEqual(len(self.requests()), 4)

    def test_default_folder_is_where_programs_look(self):
        self.target = ""
        self.assertEqual(self.run_script("plain").returncode, 0)
        self.target = self.work / ".cache/tasuki/mnist"
        self.assertTrue((self.target / f"{IDX[0]}.gz").exists())

    def check_cut_transfer(self, path=None):
        self.assert_complete(self.run_script("cut", path=path))
        half = (self.served / f"{IDX[0]}.gz").stat().st_size // 2
        self.assertEqual(self.requests()[:2], [["cut", f"{IDX[0]}.gz", "-"],
                                               ["cut", f"{IDX[0]}.gz", f"bytes={half}-"]])

    def check_cut_transfer_without_ranges(self, path=None):
        self.assert_complete(self.run_script("cut+norange", path=path))

    def test_cut_transfer_goes_on_where_it_stopped(self):
        self.check_cut_transfer()

    def test_cut_transfer_starts_again_on_a_server_without_ranges(self):
        self.check_cut_transfer_without_ranges()

    def check_busy_server(self, path=None):
        self.assert_complete(self.run_script("cut+busy", path=path))
        half = (self.served / f"{IDX[0]}.gz").stat().st_size // 2
        self.assertEqual([request[2] for request in self.requests()[:3]],
                         ["-", f"bytes={half}-", f"bytes={half}-"])

    def test_a_busy_server_costs_nothing_of_what_arrived(self):
        self.check_busy_server()

    @unittest.skipUnless(shutil.which("wget"), "wget is not installed")
    def test_a_busy_server_with_wget(self):
        self.check_busy_server(self.without_curl())

    @unittest.skipUnless(shutil.which("wget"), "wget is not installed")
    def test_cut_transfer_with_wget(self):
        self.check_cut_transfer(self.without_curl())

    @unittest.skipUnless(shutil.which("wget"), "wget is not installed")
    def test_cut_transfer_without_ranges_with_wget(self):
        self.check_cut_transfer_without_ranges(self.without_curl())

    def test_what_an_earlier_run_began_is_kept(self):
        self.assertNotEqual(self.run_script("", mirror="http://127.0.0.1:1").returncode, 0)
        half = (self.served / f"{IDX[0]}.gz").read_bytes()[:70_000]
        partial = self.target.with_name("mnist.partial") / f"{IDX[0]}.gz"
        partial.write_bytes(half)
        self.assertNotEqual(self.run_script("", mirror="http://127.0.0.1:1").returncode, 0)
        self.assert_complete(self.run_script("plain"))
        self.assertEqual(self.requests()[0][2], "bytes=70000-")

    def test_a_wrong_beginning_is_replaced(self):
        partial = self.target.with_name("mnist.partial")
        partial.mkdir(parents=True)
        (partial / f"{IDX[0]}.gz").write_bytes(b"x" * 1000)
        self.assert_complete(self.run_script("plain"))

    def test_wrong_bytes_are_refused_and_not_left_behind(self):
        done = self.run_script("wrong")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong contents", done.stderr)
        self.assertFalse(self.target.exists())
        self.assertEqual(list(self.target.with_name("mnist.partial").iterdir()), [])

    def test_unreachable_mirror_says_what_to_do(self):
        done = self.run_script("", mirror="http://127.0.0.1:1/nowhere")
        self.assertEqual(done.returncode, 1)
        for expected in ["http://127.0.0.1:1/nowhere/train-images", "connect", "by hand",
                         "TASUKI_MIRROR", str(self.target)]:
            self.assertIn(expected, done.stderr)
        self.assertFalse(self.target.exists())

    def test_missing_file_is_named(self):
        (self.served / f"{IDX[2]}.gz").unlink()
        done = self.run_script("plain")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{IDX[2]}.gz: ", done.stderr)
        self.assertIn("404", done.stderr)
        asked = [request for request in self.requests() if request[1] == f"{IDX[2]}.gz"]
        self.assertEqual(len(asked), 1)

    def test_files_of_other_contents_are_left_alone(self):
        self.target.mkdir(parents=True)
        own = self.target / IDX[1]
        own.write_bytes(b"somebody's own")
        done = self.run_script("plain")
        self.assertEqual(done.returncode, 1)
        self.assertIn(IDX[1], done.stderr)
        self.assertEqual(own.read_bytes(), b"somebody's own")

    def test_what_is_there_already_is_not_fetched(self):
        self.target.mkdir(parents=True)
        (self.target / IDX[0]).write_bytes(self.contents[IDX[0]])
        (self.target / "notes.txt").write_text("mine")
        done = self.run_script("plain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([request[1] for request in self.requests()], [f"{n}.gz" for n in IDX[1:]])
        self.assertEqual((self.target / "notes.txt").read_text(), "mine")

    def test_cifar_is_unpacked(self):
        for kind, (_, folder, names) in CIFAR.items():
            with self.subTest(kind):
                self.target = self.work / "with a space" / kind
                done = self.run_script("cut", name=kind)
                self.assertEqual(done.returncode, 0, done.stderr)
                for name in names:
                    self.assertEqual((self.target / name).read_bytes(),
                                     (self.work / folder / name).read_bytes())
                self.assertEqual(sorted(path.name for path in self.target.iterdir()), sorted(names))
                self.assertFalse(self.target.with_name(f"{kind}.partial").exists())
                self.assertIn("already", self.run_script("plain", name=kind).stdout)

    def test_cifar_with_other_contents_is_refused(self):
        for kind, (_, folder, names) in CIFAR.items():
            with self.subTest(kind):
                (self.work / folder / names[-1]).write_bytes(os.urandom(10_000))
                self.pack_cifar(kind)
                done = self.run_script("plain", name=kind)
                self.assertEqual(done.returncode, 1)
                self.assertIn("checksums differ", done.stderr)
                self.assertFalse(self.target.exists())

    def test_cifar_unpacked_by_hand_is_checked(self):
        for kind, (_, folder, names) in CIFAR.items():
            with self.subTest(kind):
                self.target = self.work / "by hand" / kind
                shutil.copytree(self.work / folder, self.target)
                self.assertIn("already", self.run_script("plain", name=kind).stdout)
                (self.target / names[-1]).write_bytes(b"cut")
                done = self.run_script("plain", name=kind)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"holds {names[-1]}, but with other contents", done.stderr)
                self.assertEqual((self.target / names[-1]).read_bytes(), b"cut")

    def test_unknown_name(self):
        done = self.run_script("plain", name="imagenet")
        self.assertEqual(done.returncode, 64)
        self.assertIn("fashion-mnist, cifar10 or cifar100", done.stderr)

    def test_real_checksums(self):
        packaged = pathlib.Path("/usr/share/datasets/fashion-mnist")
        if not packaged.exists():
            self.skipTest("package dataset-fashion-mnist is not installed")
        shutil.copy(SCRIPT, self.script)
        self.served = packaged
        self.start_server()
        done = self.run_script("plain", name="fashion-mnist")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
