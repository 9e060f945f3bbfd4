#include "core/growing_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/system_error.hpp"

namespace tasuki {

GrowingFile::GrowingFile(std::filesystem::path path, OwnFile how)
    : path_(std::move(path)), file_(open_own_file(path_, how)) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  if (end < 0)
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write {}", path_.string());
  written_ = end;
}

void GrowingFile::flush() {
  if (waiting_.empty()) return;
  try {
    write_to(file_, waiting_, path_);
  } catch (const Error&) {
    if (::ftruncate(file_.get(), written_) == 0) ::lseek(file_.get(), written_, SEEK_SET);
    throw;
  }
  written_ = size();
  waiting_.clear();
}

void GrowingFile::sync() const {
  if (::fsync(file_.get()) != 0)
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot sync {}", path_.string());
}

void GrowingFile::cut(std::int64_t bytes) {
  if (bytes >= size()) return;
  waiting_.resize(static_cast<std::size_t>(bytes > written_ ? bytes - written_ : 0));
  if (bytes >= written_) return;
  if (::ftruncate(file_.get(), bytes) != 0 || ::lseek(file_.get(), bytes, SEEK_SET) < 0)
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot shorten {}", path_.string());
  written_ = bytes;
}

void GrowingFile::replace(const std::function<void(const Put& put)>& write) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  Descriptor file;
  std::int64_t written = 0;
  replace_file(path_, [&](const std::filesystem::path& temporary) {
    file = open_own_file(temporary, OwnFile::make);
    std::string buffer;
    const auto empty_buffer = [&] {
      write_to(file, buffer, path_);
      written += std::ssize(buffer);
      buffer.clear();
    };
    write([&](std::string_view text) {
      buffer += text;
      if (buffer.size() >= piece) empty_buffer();
    });
    empty_buffer();
  });
  file_ = std::move(file);
  written_ = written;
  waiting_.clear();
}

bool GrowingFile::is_there() const {
  struct stat open {
  }, at_path{};
  return ::fstat(file_.get(), &open) == 0 && ::lstat(path_.c_str(), &at_path) == 0 &&
         open.st_ino == at_path.st_ino && open.st_dev == at_path.st_dev;
}

}  // namespace tasuki
