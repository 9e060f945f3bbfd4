#include "core/named_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"

namespace tasuki {
namespace fs = std::filesystem;

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error && !is_absence(error))
    fail_because(error, kind_of_absence(error), "cannot read {}", path.string());
  return status;
}

std::string read_up_to(const fs::path& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (!file) {
    const std::error_code cause = last_system_error();
    fail_because(cause, kind_of_absence(cause), "cannot read {}", path.string());
  }
  return read_to_end(file, path, most);
}

std::string read_text_file(const fs::path& path) {
  return read_up_to(path, std::size_t{16} << 20);
}

std::size_t read_part(const Descriptor& file, std::span<char> into, const fs::path& path) {
  for (;;) {
    const ssize_t got = ::read(file.get(), into.data(), into.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    const std::error_code cause = last_system_error();
    if (cause != std::errc::interrupted)
      fail_because(cause, kind_of_absence(cause), "cannot read {}", path.string());
  }
}

std::string read_to_end(const Descriptor& file, const fs::path& path, std::size_t most) {
  constexpr std::size_t first_piece = 1 << 16;
  std::string text;
  for (std::size_t size = 0;;) {
    if (size == text.size()) text.resize(std::min(std::max(first_piece, 2 * size), most + 1));
    const std::size_t got = read_part(file, std::span(text).subspan(size), path);
    size += got;
    if (size > most)
      fail(ErrorKind::data, "cannot read {}: it has more than {} bytes", path.string(), most);
    if (got > 0) continue;
    text.resize(size);
    return text;
  }
}

fs::path end_of_links(fs::path path) {
  constexpr int most_links = 40;
  std::error_code error;
  for (int i = 0; i < most_links; ++i) {
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / next;
  }
  return path;
}

void write_named_file(const fs::path& path, std::string_view contents) {
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);
  if (!fs::exists(found) || fs::is_regular_file(found) || fs::is_directory(found))
    return write_file(end_of_links(path), contents);
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!file)
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write {}", path.string());
  write_to(file, contents, path);
}

}  // namespace tasuki
