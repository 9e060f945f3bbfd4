// Loads the CUDA backend when a GPU is asked for. It is a separate library, libtasuki_cuda.so, so
// that programs on CPUs map no CUDA library, and one build serves machines with and without GPUs.
#pragma once

#include <string>
#include <vector>

namespace tasuki {

// Makes Device::cuda(i) usable and returns how many GPUs this process sees (at least 1; those of
// CUDA_VISIBLE_DEVICES). No context is created on any of them. Later calls return the same number.
//
// The library is TASUKI_CUDA_LIBRARY (a path) if that is set, else the one beside libtasuki.so,
// else the one in the loader's path. Libraries that it needs and the loader's path lacks (cuDNN,
// NCCL, cuBLAS) are taken from lib64 and lib of CUDA_HOME and CUDA_PATH, from the toolkit's usual
// place (/usr/local/cuda/lib64), and from the packages of the python3 in PATH
// (site-packages/nvidia/*/lib, site-packages/torch/lib). NVIDIA's driver, libcuda.so.1, is opened
// first and never linked.
//
// Anything missing is an Error of kind unavailable, in one line: a build with CUDA, a library
// (which one), the driver, a recent enough driver, a visible GPU (with the value of
// CUDA_VISIBLE_DEVICES).
int load_cuda_backend();

// A GPU that this process sees.
struct Gpu {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  std::string id;          // unique to this GPU, the same in every process that sees it
  std::string pci_bus_id;  // "0000:4f:00.0"
};

// Loads the backend and returns the GPUs that this process sees, by device index. Creates no
// context on any of them.
std::vector<Gpu> visible_gpus();

// Opens NVRTC of CUDA `cuda_major` and its second library from the same folders; false if there is
// none. cuDNN compiles some of its kernels with it, and opens it by its name alone.
bool open_runtime_compiler(int cuda_major);

// An error unless a driver of `driver_version` can run code built with CUDA `toolkit_version`: it
// must support the same major version, in any minor one. Versions are 1000 * major + 10 * minor.
void check_cuda_driver_version(int driver_version, int toolkit_version);

// The missing library in a message of dlerror() ("libnccl.so.2: cannot open shared object file:
// ..."); empty if the message says something else.
std::string missing_library(const std::string& message);

}  // namespace tasuki
