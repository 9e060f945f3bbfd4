#include "core/control_groups.hpp"

#include <fstream>
#include <string>

namespace tasuki {
namespace fs = std::filesystem;

// The lines of /proc/self/cgroup are "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1).
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const ControlGroupFiles& files) {
  std::vector<ControlGroup> found;
  std::ifstream lines(files.proc / "self" / "cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find("," + std::string(controller) + ",") == std::string::npos)
      continue;
    const fs::path top = is_version_2 ? files.cgroups : files.cgroups / controller;
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      found.push_back({top / path, is_version_2 ? 2 : 1});
      if (path.empty()) break;
    }
  }
  return found;
}

}  // namespace tasuki
