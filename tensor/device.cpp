#include "tasuki/tensor/device.hpp"

#include <fmt/format.h>

namespace tasuki {

std::string Device::text() const {
  return is_cpu() ? "cpu" : fmt::format("cuda:{}", index);
}

}  // namespace tasuki
