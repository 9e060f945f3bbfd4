// The control groups (Linux, versions 1 and 2) that limit this process.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace tasuki {

// Where the kernel reports on processes and groups.
struct ControlGroupFiles {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroups = "/sys/fs/cgroup";
};

struct ControlGroup {
  std::filesystem::path folder;  // may not exist
  int version = 2;
};

// The groups with `controller` ("memory", "cpu", "pids") that this process is in, each followed by
// those around it up to the root; the limits of all of them hold. Of version 2, all groups: a file
// of a controller that a group lacks does not exist. Inside a container a group's path may lead
// nowhere; the container's own group is then the root.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const ControlGroupFiles& files = {});

}  // namespace tasuki
