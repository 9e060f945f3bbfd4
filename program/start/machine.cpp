#include "tasuki/program/start/machine.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>

#include "tasuki/program/start/processors.hpp"

namespace tasuki::program {

std::string describe_machine() {
  std::string model = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      model = line.substr(std::min(line.find(':') + 2, line.size()));
      break;
    }
  utsname system{};
  uname(&system);
  return fmt::format("{} cores of {}, {} {}", find_processors().cores, model, system.sysname,
                     system.release);
}

}  // namespace tasuki::program
