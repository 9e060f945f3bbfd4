#!/usr/bin/env python3
"""Writes symbols/*.txt: the functions that the oldest supported cuBLASLt, cuDNN and NCCL export, from NVIDIA's
wheels on PyPI.

  make_symbol_lists.py [FOLDER]   (of wheels; what is not there is downloaded, 1.4 GB)
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from symbols_of import exported

LISTS = pathlib.Path(__file__).resolve().parent / "symbols"
# Package, version, library in it, first letters of the names.
OLDEST = [
    ("nvidia-cublas-cu12", "12.0.2.224", "libcublasLt.so.12", "cublasLt"),
    ("nvidia-cudnn-cu12", "9.10.2.21", "libcudnn.so.9", "cudnn"),
    ("nvidia-nccl-cu12", "2.27.7", "libnccl.so.2", "nccl"),
]


def wheel_of(package, version, folder):
    pattern = f"{package.replace('-', '_')}-{version}-*x86_64.whl"
    if not list(folder.glob(pattern)):
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", folder,
                        f"{package}=={version}"], check=True)
    return next(folder.glob(pattern))


def main():
    LISTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        wheels = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else work)
        for package, version, library, prefix in OLDEST:
            with zipfile.ZipFile(wheel_of(package, version, wheels)) as wheel:
                name = next(each for each in wheel.namelist() if each.endswith("/" + library))
                path = wheel.extract(name, work)
            functions = sorted(exported(path, prefix))
            (LISTS / f"{prefix}-{version}.txt").write_text("\n".join(functions) + "\n", encoding="utf-8")
            print(f"{package} {version}: {len(functions)} functions")


if __name__ == "__main__":
    main()
