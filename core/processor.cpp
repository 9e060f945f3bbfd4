#include "core/processor.hpp"

#include <algorithm>
#include <fstream>

namespace tasuki {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown processor";
}

}  // namespace tasuki
