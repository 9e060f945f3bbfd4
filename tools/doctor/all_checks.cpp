#include <array>

#include "tools/doctor/check.hpp"

namespace tasuki::doctor {

std::span<const Check> all_checks() {
  static const std::array checks = {version_check,       gpu_check,       processor_check,
                                    binding_check,       load_check,      memory_check,
                                    shared_memory_check, limit_check,     environment_check,
                                    host_name_check,     interface_check, data_check};
  return checks;
}

}  // namespace tasuki::doctor
