#include "saving/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/named_file.hpp"
#include "core/system_error.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path) {
  const std::error_code cause = last_system_error();
  fail_because(cause, kind_of_absence(cause), "cannot read {}", path.string());
}

}  // namespace

RegularFile::RegularFile(const fs::path& path) : path_(path) {
  const fs::file_status found = status_of(path);
  if (!fs::exists(found)) fail(ErrorKind::missing, "cannot read {}: no such file", path.string());
  if (!fs::is_regular_file(found))
    fail(ErrorKind::missing, "cannot read {}: not a file", path.string());
  descriptor_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!descriptor_ || ::fstat(descriptor_.get(), &status) != 0) refuse(path);
  if (!S_ISREG(status.st_mode))
    fail(ErrorKind::missing, "cannot read {}: not a file", path.string());
  bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void RegularFile::read(std::uint64_t begin, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_.get(), to.data(), to.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path_);
    if (got == 0) fail(ErrorKind::data, "{} became shorter while it was read", path_.string());
    to = to.subspan(static_cast<std::size_t>(got));
    begin += static_cast<std::uint64_t>(got);
    report_progress();
  }
}

std::uint64_t RegularFile::hash(std::uint64_t bytes) const {
  std::vector<std::byte> piece(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20));
  FileHash hash;
  for (std::uint64_t at = 0; at < bytes;) {
    const std::span<std::byte> next(piece.data(),
                                    std::min<std::uint64_t>(bytes - at, piece.size()));
    read(at, next);
    hash.add(next);
    at += next.size();
  }
  return hash.value();
}

}  // namespace tasuki
