// A libtasuki_cuda.so for programs (TASUKI_CUDA_LIBRARY): the fake GPUs, as many as the
// environment's FAKE_CUDA_DEVICES says, which the fake driver beside it reads too.
#include <cstdlib>

#include "core/environment.hpp"
#include "fake_gpu.hpp"
#include "tensor/cuda_loading/entry.hpp"

namespace {

void register_backend() {
  const char* const count = std::getenv("FAKE_CUDA_DEVICES");
  tasuki::testing::register_fake_gpus(count != nullptr ? std::atoi(count) : 1, tasuki::host_name());
}

}  // namespace

extern "C" const tasuki::CudaEntry tasuki_cuda_entry{FAKE_VERSION, 13000, register_backend};
