#include "tensor/cpu/winograd_kernels.hpp"

#include "tensor/cpu/rounded_rows.hpp"

namespace tasuki::winograd {
namespace {

// Writes rows of transformed tiles, tile after tile.
template <TileOrder order>
class TileWriter {
 public:
  explicit TileWriter(const Planes<std::uint16_t>& to) : to_(to) {}

  // Row y of tile i's planes.
  [[gnu::always_inline]] inline void write(std::int64_t i, int y, const Row (&row)[planes_wide]) {
    if (order == TileOrder::pairs && i % 2 == 0) {
      for (int x = 0; x < planes_wide; ++x) first_[y * planes_wide + x] = row[x];
      return;
    }
    std::uint16_t* to = to_.begin + (order == TileOrder::pairs ? i / 2 : i) * to_.tile +
                        y * planes_wide * to_.plane;
    for (int x = 0; x < planes_wide; ++x, to += to_.plane)
      if constexpr (order == TileOrder::pairs)
        store_pairs(first_[y * planes_wide + x], row[x], to);
      else
        store_row(row[x], to);
  }

 private:
  Planes<std::uint16_t> to_;
  Row first_[planes] = {};  // of a pair
};

[[gnu::always_inline]] inline Row pixel(const Pixels& from, std::int64_t y, std::int64_t x) {
  const bool is_inside = 0 <= y && y < from.height && 0 <= x && x < from.width;
  return is_inside ? load_row(from.values + (y * from.width + x) * row_lanes) : Row{};
}

// The column x of 4 pixels from `top` on, transformed along the column.
[[gnu::always_inline]] inline void load_column(const Pixels& from, std::int64_t top, std::int64_t x,
                                               Row (&column)[planes_high]) {
  const Row a = pixel(from, top, x), b = pixel(from, top + 1, x), c = pixel(from, top + 2, x),
            d = pixel(from, top + 3, x);
  column[0] = a - c;
  column[1] = b + c;
  column[2] = c - b;
  column[3] = b - d;
}

template <TileOrder order>
void transform_images(const TileRow& from, const Planes<std::uint16_t>& to) {
  // Neighbouring tiles share two columns.
  constexpr int shared = planes_wide - tile_width;
  TileWriter<order> writer(to);
  Row d[planes_wide][planes_high];
  std::int64_t column = from.left;
  for (int x = tile_width; x < planes_wide; ++x) load_column(from.pixels, from.top, column++, d[x]);
  for (std::int64_t i = 0; i < from.tiles; ++i) {
    for (int x = 0; x < shared; ++x)
      for (int y = 0; y < planes_high; ++y) d[x][y] = d[x + tile_width][y];
    for (int x = shared; x < planes_wide; ++x) load_column(from.pixels, from.top, column++, d[x]);
    for (int y = 0; y < planes_high; ++y) {
      const Row a = d[0][y], b = d[1][y], c = d[2][y], e = d[3][y], f = d[4][y], g = d[5][y];
      writer.write(
          i, y,
          {2 * (a + f) + 3 * (b - e) - 4 * c, 2 * (f - b) - 5 * c - e, 2 * (f + b) - 5 * e + c,
           2 * (f - c) + (e - b), 2 * (b - e) + (f - c), 2 * (b + g) + 3 * (c - f) - 4 * e});
    }
  }
}

}  // namespace

void transform_images(const TileRow& from, TileOrder order, const Planes<std::uint16_t>& to) {
  if (order == TileOrder::pairs)
    transform_images<TileOrder::pairs>(from, to);
  else
    transform_images<TileOrder::single>(from, to);
}

void transform_slopes(const TileRow& from, const Planes<std::uint16_t>& to) {
  TileWriter<TileOrder::pairs> writer(to);
  for (std::int64_t i = 0; i < from.tiles; ++i) {
    Row d[tile_width][planes_high];
    for (int x = 0; x < tile_width; ++x) {
      const std::int64_t column = from.left + i * tile_width + x;
      const Row a = pixel(from.pixels, from.top, column),
                b = pixel(from.pixels, from.top + 1, column);
      d[x][0] = a;
      d[x][1] = a + b;
      d[x][2] = a - b;
      d[x][3] = -b;
    }
    for (int y = 0; y < planes_high; ++y) {
      const Row a = d[0][y], b = d[1][y], c = d[2][y], e = d[3][y];
      writer.write(i, y,
                   {a, (a + c) + (b + e), (a + c) - (b + e), a + 2 * b + 4 * c + 8 * e,
                    8 * a - 4 * b + 2 * c - e, e});
    }
  }
}

void transform_results(const Planes<const float>& from, const float* b, const TileRow& to) {
  const Row bias = load_row(b);
  for (std::int64_t i = 0; i < to.tiles; ++i) {
    const float* const first = from.begin + i * from.tile;
    Row m[tile_height][planes_wide];
    for (int x = 0; x < planes_wide; ++x) {
      const auto sum = [&](int y) { return first + (y * planes_wide + x) * from.plane; };
      const Row middle = load_row(sum(1)), last = load_row(sum(2));
      m[0][x] = load_row(sum(0)) + middle + last;
      m[1][x] = middle - last - load_row(sum(3));
    }
    for (int y = 0; y < tile_height && to.top + y < to.pixels.height; ++y) {
      const Row add = m[y][1] + m[y][2], subtract = m[y][1] - m[y][2], two = m[y][3],
                half = m[y][4];
      const Row results[tile_width] = {
          m[y][0] + add + two + 8 * half + bias, subtract + 2 * two - 4 * half + bias,
          add + 4 * two + 2 * half + bias, subtract + 8 * two - half + m[y][5] + bias};
      const std::int64_t left = to.left + i * tile_width;
      std::uint16_t* const pixels =
          to.pixels.values + ((to.top + y) * to.pixels.width + left) * row_lanes;
      for (int x = 0; x < tile_width && left + x < to.pixels.width; ++x)
        store_row(results[x], pixels + x * row_lanes);
    }
  }
}

void transform_filters(const float* from, std::uint16_t* to, std::int64_t plane) {
  Row u[2][planes];
  for (Row(&of_channel)[planes] : u) {
    Row columns[filter_size][planes_high];
    for (int x = 0; x < filter_size; ++x) {
      const Row a = load_row(from + x * row_lanes),
                b = load_row(from + (filter_size + x) * row_lanes),
                c = load_row(from + (2 * filter_size + x) * row_lanes);
      columns[x][0] = a;
      columns[x][1] = 0.5f * (a + b + c);
      columns[x][2] = 0.5f * (a - b + c);
      columns[x][3] = c;
    }
    for (int y = 0; y < planes_high; ++y) {
      const Row a = columns[0][y], b = columns[1][y], c = columns[2][y];
      Row* const row = of_channel + y * planes_wide;
      row[0] = 0.5f * a;
      row[1] = (a + b + c) * (-1.0f / 6);
      row[2] = (a - b + c) * (1.0f / 6);
      row[3] = (a + 2 * b + 4 * c) * (1.0f / 30);
      row[4] = (4 * a - 2 * b + c) * (-1.0f / 30);
      row[5] = 0.5f * c;
    }
    from += filter_size * filter_size * row_lanes;
  }
  for (int i = 0; i < planes; ++i) store_pairs(u[0][i], u[1][i], to + i * plane);
}

void transform_filter_slopes(const float* from, std::int64_t plane, float* to) {
  Row u[filter_size][planes_wide];
  for (int x = 0; x < planes_wide; ++x) {
    const auto sum = [&](int y) { return load_row(from + (y * planes_wide + x) * plane); };
    const Row b = sum(1), c = sum(2);
    u[0][x] = sum(0) + 0.5f * (b + c);
    u[1][x] = 0.5f * (b - c);
    u[2][x] = 0.5f * (b + c) + sum(3);
  }
  for (int y = 0; y < filter_size; ++y) {
    const Row a = u[y][0], b = u[y][1] * (-1.0f / 6), c = u[y][2] * (1.0f / 6),
              d = u[y][3] * (1.0f / 30), e = u[y][4] * (-1.0f / 30), f = u[y][5];
    float* const row = to + y * filter_size * row_lanes;
    store_row(0.5f * a + b + c + d + 4 * e, row);
    store_row(b - c + 2 * d - 2 * e, row + row_lanes);
    store_row(b + c + 4 * d + e + 0.5f * f, row + 2 * row_lanes);
  }
}

}  // namespace tasuki::winograd
