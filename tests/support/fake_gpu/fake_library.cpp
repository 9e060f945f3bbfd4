// A libtasuki_cuda.so for programs (TASUKI_CUDA_LIBRARY): the fake GPUs, as many as the
// environment's FAKE_CUDA_DEVICES says, which the fake driver beside it reads too.
#include <cstdlib>

#include "core/environment.hpp"
#include "fake_gpu.hpp"
#include "tensor/cuda_loading/entry.hpp"

namespace {

// Their ids carry the host's name, as those of different machines differ.
std::vector<tasuki::Gpu> gpus() {
  const char* const text = std::getenv("FAKE_CUDA_DEVICES");
  const int count = text != nullptr ? std::atoi(text) : 1;
  std::vector<tasuki::Gpu> found;
  for (int index = 0; index < count; ++index)
    found.push_back(
        {"Fake GPU", tasuki::host_name() + '-' + std::to_string(index), "0000:00:00.0"});
  return found;
}

}  // namespace

extern "C" const tasuki::CudaEntry tasuki_cuda_entry{FAKE_VERSION, 13000,
                                                     tasuki::testing::register_fake_gpus, gpus};
