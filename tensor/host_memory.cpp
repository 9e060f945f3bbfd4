#include "tensor/host_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "tensor/storage.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

constexpr HostMemory unlimited = {std::numeric_limits<std::size_t>::max(),
                                  std::numeric_limits<std::size_t>::max()};

HostMemory narrower(const HostMemory& a, const HostMemory& b) {
  return b.free < a.free ? b : a;
}

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

// A file that holds one number; nothing for "max" and missing files.
std::optional<std::size_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::size_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

constexpr std::size_t kilobyte = 1024;

HostMemory of_machine(const fs::path& proc) {
  const auto available = number_after(proc / "meminfo", "MemAvailable:");
  const auto total = number_after(proc / "meminfo", "MemTotal:");
  return available && total ? HostMemory{*available * kilobyte, *total * kilobyte} : unlimited;
}

// File caches count as used in a group, but are reclaimed before a process is killed.
HostMemory of_group(const fs::path& group, const char* limit_name, const char* used_name) {
  const auto limit = number_in(group / limit_name), used = number_in(group / used_name);
  if (!limit || !used) return unlimited;
  std::size_t caches = 0;
  for (const char* const kind : {"inactive_file", "active_file"})
    caches += number_after(group / "memory.stat", kind).value_or(0);
  return {difference(*limit, difference(*used, caches)), *limit};
}

HostMemory of_groups(const MemoryFiles& files) {
  HostMemory narrowest = unlimited;
  for (const auto& [folder, version] : control_groups("memory", files))
    narrowest = narrower(narrowest, version == 2 ? of_group(folder, "memory.max", "memory.current")
                                                 : of_group(folder, "memory.limit_in_bytes",
                                                            "memory.usage_in_bytes"));
  return narrowest;
}

HostMemory of_own_limit(const fs::path& status, int resource, const char* used_key) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return unlimited;
  const std::size_t used = number_after(status, used_key).value_or(0) * kilobyte;
  return {difference(limit.rlim_cur, used), limit.rlim_cur};
}

}  // namespace

HostMemory find_host_memory(const MemoryFiles& files, int sharing) {
  const fs::path status = files.proc / "self" / "status";
  HostMemory found = narrower(of_machine(files.proc), of_groups(files));
  found.free /= static_cast<std::size_t>(sharing);
  found = narrower(found, of_own_limit(status, RLIMIT_AS, "VmSize:"));
  return narrower(found, of_own_limit(status, RLIMIT_DATA, "VmData:"));
}

void require_host_memory(std::size_t bytes) {
  const auto fits = [bytes] {
    return bytes <= difference(find_host_memory().free, host_memory_reserve);
  };
  if (!fits() && !(give_back_cached_host_memory() && fits())) throw out_of_host_memory(bytes);
}

bool spoils_unwritten() {
  static const bool is_checked = is_switched_on("TASUKI_CHECK_MEMORY");
  return is_checked;
}

void spoil_unwritten(void* memory, std::size_t bytes) {
  if (spoils_unwritten()) std::memset(memory, spoilt_byte, bytes);
}

void give_back_pages(std::byte* begin, Range bytes, bool is_shared) {
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t first = (bytes.begin + page - 1) / page * page, end = bytes.end / page * page;
  if (first >= end) return;
  if (madvise(begin + first, static_cast<std::size_t>(end - first),
              is_shared ? MADV_REMOVE : MADV_DONTNEED) != 0)
    fail(ErrorKind::internal, "memory cannot be given back: {}",
         std::generic_category().message(errno));
}

void prefer_large_pages(std::byte* begin, std::size_t bytes) {
  constexpr std::size_t large = std::size_t{2} << 20;
  const std::size_t before = (large - reinterpret_cast<std::uintptr_t>(begin) % large) % large;
  if (before < bytes) static_cast<void>(madvise(begin + before, bytes - before, MADV_HUGEPAGE));
}

OutOfMemory out_of_host_memory(std::size_t bytes) {
  const HostMemory memory = find_host_memory();
  const HostPoolStatistics pool = host_pool_statistics();
  return OutOfMemory({.device = Device::cpu(),
                      .requested = bytes,
                      .free = memory.free,
                      .total = memory.total,
                      .in_use = pool.in_use,
                      .reserved = pool.in_use + pool.cached});
}

}  // namespace tasuki
