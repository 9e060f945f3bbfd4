// Loads the CUDA backend when a GPU is asked for. It is a separate library, libtasuki_cuda.so, so
// that programs on CPUs map no CUDA library, and one build serves machines with and without GPUs.
#pragma once

namespace tasuki {

// Makes Device::cuda(i) usable and returns how many GPUs this process sees (at least 1; those of
// CUDA_VISIBLE_DEVICES). No context is created on any of them. Later calls return the same number.
//
// The library is TASUKI_CUDA_LIBRARY (a path) if that is set, else the one beside libtasuki.so,
// else that in the loader's path. Libraries that it needs and the loader's path lacks (cuDNN, NCCL,
// cuBLAS) are taken from CUDA_HOME, CUDA_PATH and Python's packages (libraries.hpp).
//
// Anything missing is an Error of kind unavailable, in one line: a build with CUDA, a library
// (which one), the driver, a recent enough driver, a visible GPU.
int load_cuda_backend();

}  // namespace tasuki
