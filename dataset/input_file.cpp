#include "tasuki/dataset/input_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

constexpr unsigned buffer_bytes = 128 << 10;
// A deflated byte stands for at most this many (zlib's "Technical Details", maximum expansion).
constexpr std::int64_t largest_deflate_ratio = 1032;

gzFile open_or_fail(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    fail(ErrorKind::missing, "{}: expected a data file, found nothing there", path.string());
  if (!fs::is_regular_file(status))
    fail(ErrorKind::missing, "{}: expected a data file, found something else", path.string());
  gzFile file = ::gzopen(path.c_str(), "rb");
  if (file == nullptr)
    fail(ErrorKind::missing, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  ::gzbuffer(file, buffer_bytes);
  return file;
}

}  // namespace

InputFile::InputFile(fs::path path)
    : path_(std::move(path)), file_(open_or_fail(path_), &::gzclose_r) {}

void InputFile::expect_size(std::int64_t bytes, std::string reason) {
  expected_ = bytes;
  reason_ = std::move(reason);
  const auto found = static_cast<std::int64_t>(fs::file_size(path_));
  if (::gzdirect(file_.get()) != 0) {
    if (found != bytes)
      fail(ErrorKind::data, "{}: expected {} bytes ({}), found {}; get the file again",
           path_.string(), bytes, reason_, found);
  } else if (found < bytes / largest_deflate_ratio) {
    fail(ErrorKind::data,
         "{}: expected {} bytes when unpacked ({}), found a gzip file of {} bytes, which cannot "
         "hold them; get the file again",
         path_.string(), bytes, reason_, found);
  }
}

void InputFile::read(std::byte* destination, std::size_t bytes) {
  if (read_some(destination, bytes) == bytes) return;
  if (expected_ < 0)
    fail(ErrorKind::data, "{}: expected a header, found the end of the file after {} bytes",
         path_.string(), position_);
  fail(ErrorKind::data, "{}: expected {} bytes ({}), found the end after {}; get the file again",
       path_.string(), expected_, reason_, position_);
}

void InputFile::check_end() {
  std::byte extra;
  if (read_some(&extra, 1) > 0)
    fail(ErrorKind::data, "{}: expected {} bytes ({}), found more; get the file again",
         path_.string(), expected_, reason_);
  int code = Z_OK;
  ::gzerror(file_.get(), &code);
  if (code == Z_BUF_ERROR)
    fail(ErrorKind::data, "{}: expected a checksum, found the end of the file; get the file again",
         path_.string());
}

std::size_t InputFile::read_some(std::byte* destination, std::size_t bytes) {
  constexpr std::size_t largest_call = 1 << 24;
  std::size_t done = 0;
  while (done < bytes) {
    const auto wanted = static_cast<unsigned>(std::min(bytes - done, largest_call));
    const int got = ::gzread(file_.get(), destination + done, wanted);
    if (got > 0) {
      report_progress();
      done += static_cast<std::size_t>(got);
      position_ += got;
    }
    int code = Z_OK;
    const char* text = ::gzerror(file_.get(), &code);
    if (code == Z_ERRNO)
      fail(ErrorKind::io, "{}: reading failed after {} bytes: {}", path_.string(), position_,
           std::strerror(errno));
    // A file that ends too early (Z_BUF_ERROR) is reported with what was expected of it.
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      fail(ErrorKind::data,
           "{}: expected gzip data, found damage after {} bytes: {}; get the file again",
           path_.string(), position_, text);
    if (got <= 0) break;
  }
  return done;
}

}  // namespace tasuki
