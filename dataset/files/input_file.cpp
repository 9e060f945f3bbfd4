#include "dataset/files/input_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/named_file.hpp"
#include "core/system_error.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t buffer_bytes = 128 << 10;
// The most bytes that a deflated byte can stand for (zlib's "Technical Details", maximum
// expansion).
constexpr std::int64_t largest_deflate_ratio = 1032;

bool begins_gzip(const unsigned char* bytes) {
  return bytes[0] == 0x1f && bytes[1] == 0x8b;  // RFC 1952
}

std::FILE* open_or_fail(const fs::path& path) {
  const fs::file_status status = status_of(path);
  if (!fs::exists(status))
    fail(ErrorKind::missing, "{}: expected a data file, found no file", path.string());
  if (!fs::is_regular_file(status))
    fail(ErrorKind::missing, "{}: expected a data file, found something that is not a regular file",
         path.string());
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr)
    fail_because(last_system_error(), ErrorKind::missing, "cannot read {}", path.string());
  return file;
}

}  // namespace

void InputFile::EndInflate::operator()(z_stream* stream) const {
  ::inflateEnd(stream);
  delete stream;
}

InputFile::InputFile(fs::path path)
    : path_(std::move(path)), file_(open_or_fail(path_), &std::fclose) {
  std::array<unsigned char, 2> start{};
  const bool is_packed = std::fread(start.data(), 1, start.size(), file_.get()) == start.size() &&
                         begins_gzip(start.data());
  std::rewind(file_.get());
  if (!is_packed) return;
  stream_.reset(new z_stream{});
  constexpr int gzip_only = 16;
  if (::inflateInit2(stream_.get(), MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
  packed_.resize(buffer_bytes);
}

void InputFile::expect_size(std::int64_t bytes, std::string reason) {
  expected_ = bytes;
  reason_ = std::move(reason);
  const auto found = static_cast<std::int64_t>(fs::file_size(path_));
  if (!stream_) {
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
  if (!stream_) return;
  if (!has_ended_)
    fail(ErrorKind::data, "{}: expected a checksum, found the end of the file; get the file again",
         path_.string());
  if (unread_ > 0)
    fail(ErrorKind::data,
         "{}: expected the end of the file after its gzip data, found {} more bytes; get the file "
         "again",
         path_.string(), unread_);
}

std::size_t InputFile::read_some(std::byte* destination, std::size_t bytes) {
  constexpr std::size_t largest_call = 1 << 24;
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t wanted = std::min(bytes - done, largest_call);
    const std::size_t got = stream_ ? inflate_some(destination + done, wanted)
                                    : std::fread(destination + done, 1, wanted, file_.get());
    fail_if_broken();
    if (got == 0) break;
    report_progress();
    done += got;
    position_ += static_cast<std::int64_t>(got);
  }
  return done;
}

std::size_t InputFile::inflate_some(std::byte* destination, std::size_t bytes) {
  stream_->next_out = reinterpret_cast<unsigned char*>(destination);
  stream_->avail_out = static_cast<unsigned>(bytes);
  while (stream_->avail_out > 0 && !has_ended_) {
    // A file that ends too early is reported together with what was expected.
    if (stream_->avail_in == 0 && !refill()) break;
    const int code = ::inflate(stream_.get(), Z_NO_FLUSH);
    if (code == Z_STREAM_END)
      begin_next_member();
    else if (code != Z_OK && code != Z_BUF_ERROR)
      fail(ErrorKind::data,
           "{}: expected gzip data, found damage after {} bytes: {}; get the file again",
           path_.string(), position_ + static_cast<std::int64_t>(bytes - stream_->avail_out),
           stream_->msg ? stream_->msg : ::zError(code));
  }
  return bytes - stream_->avail_out;
}

bool InputFile::refill() {
  if (stream_->avail_in > 0) std::memmove(packed_.data(), stream_->next_in, stream_->avail_in);
  const std::size_t read = std::fread(packed_.data() + stream_->avail_in, 1,
                                      packed_.size() - stream_->avail_in, file_.get());
  fail_if_broken();
  stream_->next_in = packed_.data();
  stream_->avail_in += static_cast<unsigned>(read);
  return stream_->avail_in > 0;
}

// A gzip file may consist of several members.
void InputFile::begin_next_member() {
  if (stream_->avail_in < 2) refill();
  has_ended_ = stream_->avail_in < 2 || !begins_gzip(stream_->next_in);
  if (!has_ended_) {
    ::inflateReset(stream_.get());
    return;
  }
  const auto read = static_cast<std::int64_t>(std::ftell(file_.get()));
  unread_ = static_cast<std::int64_t>(fs::file_size(path_)) - read + stream_->avail_in;
}

void InputFile::fail_if_broken() const {
  if (std::ferror(file_.get()) != 0)
    fail(ErrorKind::io, "{}: reading failed after {} bytes: {}", path_.string(), position_,
         std::strerror(errno));
}

void check_label(std::int32_t label, std::int64_t classes, std::int64_t example,
                 const std::filesystem::path& path, std::optional<std::int64_t> in_data_set) {
  if (label >= 0 && label < classes) return;
  fail(ErrorKind::data, "{}: expected labels from 0 to {}, found {} at example {}{}", path.string(),
       classes - 1, label, example,
       in_data_set ? fmt::format(" of the file, {} of the data set", *in_data_set) : "");
}

}  // namespace tasuki
