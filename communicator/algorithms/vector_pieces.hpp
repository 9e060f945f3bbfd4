// VectorPieces: divides a vector into parts for ranks, and parts into chunks for messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/range.hpp"

namespace tasuki {

// Pieces end at multiples of a cache line from the vector's first element, which begins a line, so
// no line belongs to two pieces. Only the ends of the whole range may be elsewhere.
class VectorPieces {
 public:
  // `chunk_bytes`: the maximum for a message, at least a cache line.
  VectorPieces(std::int64_t count, std::size_t element_bytes, std::int64_t chunk_bytes)
      : VectorPieces(Range{0, count}, element_bytes, chunk_bytes) {}
  // Divides the elements `whole` of a vector.
  VectorPieces(Range whole, std::size_t element_bytes, std::int64_t chunk_bytes)
      : whole_(whole),
        line_(static_cast<std::int64_t>(line_bytes / element_bytes)),
        chunk_lines_(std::max<std::int64_t>(1, chunk_bytes / std::int64_t{line_bytes})) {}

  Range whole() const { return whole_; }
  // Part `i` of `parts` parts of a piece; their lengths differ by at most a cache line.
  Range part_of(Range piece, std::int64_t parts, std::int64_t i) const {
    const std::int64_t first = piece.begin / line_, lines = lines_to(piece.end) - first;
    return {std::clamp((first + lines * i / parts) * line_, piece.begin, piece.end),
            std::clamp((first + lines * (i + 1) / parts) * line_, piece.begin, piece.end)};
  }
  // Divides a piece into as few chunks as possible, of almost equal length; none if it is empty.
  std::vector<Range> chunks_of(Range piece) const {
    const std::int64_t lines = lines_to(piece.end) - piece.begin / line_;
    const std::int64_t parts = (lines + chunk_lines_ - 1) / chunk_lines_;
    std::vector<Range> chunks;
    for (std::int64_t i = 0; i < parts && piece.size() > 0; ++i)
      chunks.push_back(part_of(piece, parts, i));
    return chunks;
  }

 private:
  static constexpr std::size_t line_bytes = 64;
  std::int64_t lines_to(std::int64_t end) const { return (end + line_ - 1) / line_; }

  Range whole_;
  std::int64_t line_, chunk_lines_;
};

}  // namespace tasuki
