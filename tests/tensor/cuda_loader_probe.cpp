// Loads the CUDA backend and prints how many GPUs there are, or the error as jobs print it.
#include <cstdio>

#include "core/error.hpp"
#include "tensor/cuda_loading/loader.hpp"

int main() {
  try {
    std::printf("%d\n", tasuki::load_cuda_backend());
    return tasuki::load_cuda_backend() > 0 ? 0 : 1;
  } catch (const tasuki::Error& error) {
    std::printf("%s\n", error.what());
    return error.exit_code();
  }
}
