// What processes that were killed leave behind.
#pragma once

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/temporary_name.hpp"

namespace tasuki::testing {

// A temporary name beside `path` of a process of this host that is over.
inline std::filesystem::path leftover(const std::filesystem::path& path) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::string name = temporary_name(path).string();
  const std::string own = fmt::format("-{}-", ::getpid());
  return name.replace(name.rfind(own), own.size(), fmt::format("-{}-", child));
}

}  // namespace tasuki::testing
