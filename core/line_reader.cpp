#include "core/line_reader.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/named_file.hpp"

namespace tasuki {
namespace {

constexpr std::size_t piece = std::size_t{256} << 10, longest_line = std::size_t{16} << 20;

}  // namespace

LineReader::LineReader(Descriptor file, std::filesystem::path path)
    : file_(std::move(file)), path_(std::move(path)) {}

std::optional<LineReader::Line> LineReader::next() {
  for (std::size_t searched = 0;;) {
    const std::size_t end = rest_.find('\n', searched);
    if (end != rest_.npos) {
      const Line line{rest_.substr(0, end)};
      rest_.remove_prefix(end + 1);
      return line;
    }
    searched = rest_.size();
    if (!read_more()) break;
  }
  if (rest_.empty()) return std::nullopt;
  return Line{std::exchange(rest_, {}), /*is_whole=*/false};
}

bool LineReader::read_more() {
  if (!file_) return false;
  const std::size_t kept = rest_.size();
  if (kept > longest_line)
    fail(ErrorKind::data, "cannot read {}: a line has more than {} MiB", path_.string(),
         longest_line >> 20);
  buffer_.erase(0, buffer_.size() - kept);
  buffer_.resize(kept + piece);
  const std::size_t got = read_part(file_, {buffer_.data() + kept, piece}, path_);
  buffer_.resize(kept + got);
  rest_ = buffer_;
  return got > 0;
}

}  // namespace tasuki
