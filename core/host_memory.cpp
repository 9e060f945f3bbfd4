#include "tasuki/core/host_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "tasuki/core/out_of_memory.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

std::size_t difference(std::size_t limit, std::size_t used) {
  return limit > used ? limit - used : 0;
}

// The number after `key` in a file of "key number" or "key: number kB" lines.
std::optional<std::size_t> number_after(const fs::path& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    std::size_t number = 0;
    if (word == key && lines >> number) return number;
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// A file that holds one number; "max" and missing files are none.
std::optional<std::size_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::size_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

std::size_t free_in_machine(const fs::path& proc) {
  constexpr std::size_t kilobyte = 1024;
  const auto available = number_after(proc / "meminfo", "MemAvailable:");
  return available ? *available * kilobyte : unlimited;
}

// Caches of files count as used in a group, but are given back before anybody is killed.
std::size_t free_in_group(const fs::path& group, const char* limit_name, const char* used_name) {
  const auto limit = number_in(group / limit_name), used = number_in(group / used_name);
  if (!limit || !used) return unlimited;
  std::size_t caches = 0;
  for (const char* const kind : {"inactive_file", "active_file"})
    caches += number_after(group / "memory.stat", kind).value_or(0);
  return difference(*limit, difference(*used, caches));
}

// The lines of /proc/self/cgroup are "0::/path" (version 2) and "4:memory:/path" (version 1).
// Inside a container the path may lead nowhere; the container's own group is then at the top.
std::size_t free_in_groups(const MemoryFiles& files) {
  std::size_t least = unlimited;
  std::ifstream lines(files.proc / "self" / "cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && (',' + controllers + ',').find(",memory,") == std::string::npos) continue;
    const fs::path top = is_version_2 ? files.cgroups : files.cgroups / "memory";
    const char* const limit = is_version_2 ? "memory.max" : "memory.limit_in_bytes";
    const char* const used = is_version_2 ? "memory.current" : "memory.usage_in_bytes";
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      least = std::min(least, free_in_group(top / path, limit, used));
      if (path.empty()) break;
    }
  }
  return least;
}

std::size_t free_by_own_limit(const fs::path& status, int resource, const char* used_key) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return unlimited;
  constexpr std::size_t kilobyte = 1024;
  return difference(limit.rlim_cur, number_after(status, used_key).value_or(0) * kilobyte);
}

}  // namespace

std::size_t free_host_memory(const MemoryFiles& files) {
  const fs::path status = files.proc / "self" / "status";
  return std::min({free_in_machine(files.proc), free_in_groups(files),
                   free_by_own_limit(status, RLIMIT_AS, "VmSize:"),
                   free_by_own_limit(status, RLIMIT_DATA, "VmData:")});
}

void require_host_memory(std::size_t bytes) {
  // For page tables, the kernel's own needs and processes that take memory at the same time.
  constexpr std::size_t reserve = std::size_t{64} << 20;
  const std::size_t free = free_host_memory();
  if (bytes > difference(free, reserve)) throw OutOfMemory("cpu", bytes, free);
}

}  // namespace tasuki
