#!/usr/bin/env python3
"""What other tools than CMake build Tasuki from (packaging/): versions, dependencies, files that are named."""
import ast
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
SPACK = PACKAGING / "spack/spack_repo/tasuki/packages/tasuki/package.py"
CONDA = PACKAGING / "conda/recipe.yaml"
# How CMake, Spack and conda call a library.
LIBRARIES = {
    "Boost": ("boost", "libboost-devel"),
    "JPEG": ("jpeg", "libjpeg-turbo"),
    "MPI": ("mpi", "openmpi"),
    "PNG": ("libpng", "libpng"),
    "ZLIB": ("zlib-api", "zlib"),
    "dnnl": ("onednn", "onednn-cpu-omp"),
    "fmt": ("fmt", "fmt"),
    "hdf5": ("hdf5", "hdf5"),
    "hwloc": ("hwloc", "libhwloc"),
    "libzip": ("libzip", "libzip"),
    "nlohmann_json": ("nlohmann-json", "nlohmann_json"),
    "spdlog": ("spdlog", "spdlog"),
    "xxhash": ("xxhash", "xxhash"),
}
OF_COMPILER = {"OpenMP", "PkgConfig", "Threads"}


def read(path):
    return (ROOT / path).read_text()


class Packaging(unittest.TestCase):
    def test_versions_are_the_projects(self):
        version = re.search(r"project\(tasuki VERSION (\S+)", read("CMakeLists.txt"))[1]
        self.assertIn(f'version("{version}")', SPACK.read_text())
        self.assertIn(f"\n  version: {version}\n", CONDA.read_text())

    def test_libraries_are_those_that_cmake_searches(self):
        sources = "".join(read(f"cmake/Tasuki{part}.cmake") for part in ("Dependencies", "Dnnl", "Hdf5"))
        searched = set(re.findall(r"^\s*(?:find_package|pkg_check_modules|pkg_search_module)\((\w+)", sources,
                                  re.MULTILINE))
        self.assertEqual(searched - OF_COMPILER, set(LIBRARIES))
        spack = set(re.findall(r'^    depends_on\("([\w-]+)[^"]*"\)', SPACK.read_text(), re.MULTILINE))
        self.assertEqual(spack, {names[0] for names in LIBRARIES.values()})
        host = re.search(r"^  host:\n((?:    - .*\n)+)", CONDA.read_text(), re.MULTILINE)[1]
        self.assertEqual(set(re.findall(r"- ([\w-]+)", host)), {names[1] for names in LIBRARIES.values()})

    def test_spack_package_is_python(self):
        tree = ast.parse(SPACK.read_text())
        self.assertEqual([node.name for node in tree.body if isinstance(node, ast.ClassDef)], ["Tasuki"])

    def test_options_are_cmakes(self):
        declared = "".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")])
        for path in (SPACK, CONDA):
            for name in set(re.findall(r"TASUKI_[A-Z_]+", path.read_text())):
                self.assertRegex(declared, rf"(?:option|set)\({name}\b", f"{path}: {name}")

    def test_first_lines_say_what_was_not_tried(self):
        for path in [SPACK, CONDA, *PACKAGING.glob("*.def"), *(ROOT / "hostfiles").glob("train_mnist.*")]:
            lines = [line for line in path.read_text().splitlines() if not line.startswith("#!")]
            tried = path.suffix == ".slurm"  # app_slurm_ranks
            says_so = re.search(r"\bnot\b", lines[0], re.IGNORECASE) is not None
            self.assertEqual(says_so, not tried, f"{path}: {lines[0]}")

    def test_jobs_are_scripts(self):
        for path in (ROOT / "hostfiles").glob("train_mnist.*"):
            if path.suffix != ".yaml":
                subprocess.run(["bash", "-n", path], check=True)


if __name__ == "__main__":
    unittest.main()
