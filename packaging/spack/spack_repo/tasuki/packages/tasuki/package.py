# Not tried with Spack; the tests compile it as Python.
#
#   spack repo add packaging/spack/spack_repo/tasuki       # in the root of the checkout
#   spack install tasuki dev_path="$PWD"
#
# For Spack 1.x. There is no archive to download yet: Spack builds the checkout that dev_path names.
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Tasuki(CMakePackage, CudaPackage):
    """Data-parallel training of neural networks over MPI."""

    license("MIT")

    version("0.1.0")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    # Programs of users are compiled against their headers, too.
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("mpi@3.1:")
    depends_on("boost+program_options")
    depends_on("hdf5@1.10.5:~mpi")
    depends_on("hwloc")
    depends_on("jpeg")
    depends_on("libpng")
    depends_on("libzip")
    depends_on("onednn@2.6:3 cpu_runtime=omp")
    depends_on("spdlog+fmt_external")
    depends_on("xxhash")
    depends_on("zlib-api")
    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("cudnn@9")
        depends_on("nccl@2.19:")

    conflicts("%gcc@:11", msg="Tasuki is written in C++20, for GCC 12 or later")

    def cmake_args(self):
        args = [
            self.define_from_variant("TASUKI_CUDA", "cuda"),
            self.define("TASUKI_BUILD_TESTS", False),
            self.define("TASUKI_BUILD_BENCH", False),
        ]
        if self.spec.satisfies("+cuda"):
            parts = [self.spec[name].prefix for name in ("cuda", "cudnn", "nccl")]
            args.append(self.define("TASUKI_CUDA_FOLDERS", parts))
            architectures = self.spec.variants["cuda_arch"].value
            if architectures != ("none",):
                args.append(self.define("TASUKI_CUDA_ARCHITECTURES", list(architectures)))
        return args
