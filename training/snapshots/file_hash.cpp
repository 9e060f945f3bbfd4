#include "training/snapshots/file_hash.hpp"

#include <algorithm>

namespace tasuki {

void FileHash::add(std::span<const std::byte> bytes) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(bytes.size(), piece_bytes - in_piece_));
    piece_.add(now);
    in_piece_ += now.size();
    bytes = bytes.subspan(now.size());
    if (in_piece_ < piece_bytes) continue;
    before_ = piece_.value();
    piece_.begin(before_);
    in_piece_ = 0;
  }
}

}  // namespace tasuki
