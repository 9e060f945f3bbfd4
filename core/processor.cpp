#include "core/processor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace tasuki {
namespace {

// A value of the first processor; empty if Linux does not say it.
std::string value_of(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::string_view name = std::string_view(line).substr(0, line.find_first_of("\t:"));
    if (name == key) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "";
}

}  // namespace

std::string processor_name() {
  const std::string name = value_of("model name");
  return name.empty() ? "unknown processor" : name;
}

std::string processor_type() {
  return fmt::format("{} (family {}, model {}, stepping {})", processor_name(),
                     value_of("cpu family"), value_of("model"), value_of("stepping"));
}

}  // namespace tasuki
