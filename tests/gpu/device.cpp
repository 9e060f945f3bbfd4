#include "device.hpp"

#include "core/error.hpp"
#include "tensor/cuda_loading/loader.hpp"

namespace tasuki::testing {

std::optional<std::string> why_no_gpu() {
  try {
    load_cuda_backend();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tasuki::testing
