// The GPUs that tests of communicators run on. Linked with fake_gpus.cpp these are fake ones;
// tests/gpu has the same for this machine's.
#pragma once

#include <optional>
#include <string>

#include "tensor/device.hpp"

namespace tasuki::testing {

struct OwnGpu {
  std::optional<Device> device;
  std::string reason_for_none;
};
// That of this rank.
OwnGpu own_gpu();

}  // namespace tasuki::testing
