#include "tools/processes/memory_file.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/file.hpp"

namespace tasuki::processes {

MemoryFile::MemoryFile(std::string_view contents)
    : descriptor_(memfd_create("tasuki", MFD_CLOEXEC)),
      path_(fmt::format("/proc/{}/fd/{}", getpid(), descriptor_)) {
  if (descriptor_ < 0) fail(ErrorKind::io, "memfd_create: {}", std::strerror(errno));
  while (!contents.empty()) {
    const ssize_t n = write(descriptor_, contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      close(descriptor_);
      fail(ErrorKind::io, "a file in memory cannot be written: {}", std::strerror(error));
    }
    contents.remove_prefix(static_cast<std::size_t>(n));
  }
}

MemoryFile::~MemoryFile() {
  close(descriptor_);
}

std::string MemoryFile::text() const {
  return read_file(path_);
}

}  // namespace tasuki::processes
