// Loads the CUDA backend when a GPU is asked for. It is a library of its own, libtasuki_cuda.so, so
// that programs on CPUs map no CUDA library, and one build serves machines with and without GPUs.
#pragma once

namespace tasuki {

// Makes Device::cuda(i) usable and returns how many GPUs this process sees (at least 1; those of
// CUDA_VISIBLE_DEVICES). No context is created on any of them. Later calls return the same number.
//
// The library is TASUKI_CUDA_LIBRARY (a path) when that is set, else the one beside libtasuki.so,
// else what the loader's path has. Libraries that it needs and the loader's path lacks (cuDNN,
// NCCL, cuBLAS) are taken from CUDA_HOME, CUDA_PATH and the folders of NVIDIA's Python wheels.
//
// Whatever is missing is an Error of kind unavailable, in one line: a build without CUDA, a library
// (which one), the driver, a driver that is too old, a visible GPU.
int load_cuda_backend();

}  // namespace tasuki
