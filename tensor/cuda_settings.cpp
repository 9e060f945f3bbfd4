#include "tensor/cuda_settings.hpp"

namespace tasuki {

CudaSettings& cuda_settings() {
  static CudaSettings settings;
  return settings;
}

}  // namespace tasuki
