// The transforms of Winograd's F(2 x 4, 3 x 3) on 16 channels of bfloat16, compiled for processors
// with AVX512_BF16: only for can_use_rounded_winograd() (rounded_winograd.hpp).
//
// A tile is 2 rows x 4 columns of results. It depends on 4 x 6 pixels, and has as many products for
// each pair of channels: F(2, 3) along columns with the points 0, 1, -1 and infinity, F(4, 3) along
// rows with 0, 1, -1, 2, -1/2 and infinity (Lavin and Gray, arXiv 1509.09308, say how points become
// matrices). These points were chosen because they enlarge roundings least: with normally
// distributed values, rounding tiles and filters to bfloat16 leaves 0.7 % of the results; 2 and -2
// leave 0.9 %, F(2 x 2) 0.4 %, and F(4 x 4) at least 1.7 %.
#pragma once

#include <cstdint>

namespace tasuki::winograd {

inline constexpr int tile_height = 2, tile_width = 4, filter_size = 3;
inline constexpr int planes_high = 4, planes_wide = 6, planes = planes_high * planes_wide;

// Pixels of 16 channels: a block of one image.
struct Pixels {
  std::uint16_t* values;
  std::int64_t height, width;
};

// Neighbouring tiles in a row; the first one's first pixel lies at (top, left). Pixels beyond the
// image are read as zeros, and not written.
struct TileRow {
  Pixels pixels;
  std::int64_t top, left, tiles;
};

// How transformed tiles lie in a plane. Sums over channels read tile after tile. Sums over tiles
// read pairs of tiles: each channel of the first and of the second one side by side.
enum class TileOrder : std::uint8_t { single, pairs };

// Of 16 channels of transformed tiles: where the first tile's first plane begins, and how many
// elements lie between tiles (or pairs of tiles) and between planes.
template <class Element>
struct Planes {
  Element* begin;
  std::int64_t tile, plane;
};

// Images: 4 x 6 pixels of each tile. Tiles in pairs are an even number.
void transform_images(const TileRow& from, TileOrder order, const Planes<std::uint16_t>& to);
// Results' gradients, tiles in pairs.
void transform_slopes(const TileRow& from, const Planes<std::uint16_t>& to);
// Sums of products to results; b: 16 biases.
void transform_results(const Planes<const float>& from, const float* b, const TileRow& to);
// 16 filters from each of two neighbouring channels: from 2 x 9 rows of 16 weights to pairs of both
// channels, planes `plane` elements apart.
void transform_filters(const float* from, std::uint16_t* to, std::int64_t plane);
// Sums of products to 16 filters' gradients, 9 rows.
void transform_filter_slopes(const float* from, std::int64_t plane, float* to);

}  // namespace tasuki::winograd
