#include "tensor/bad_index.hpp"
#include "tensor/cpu/sequences.hpp"

#include <cstring>
#include <vector>

#include "tensor/cpu/float_blocks.hpp"
#include "tensor/embed_check.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t ignored = -1;

// Ids as row numbers, or `ignored`; checked against the number of rows.
std::vector<std::int64_t> rows_of(const Tensor& ids, std::optional<std::int64_t> ignore,
                                  std::int64_t rows) {
  std::vector<std::int64_t> made(static_cast<std::size_t>(ids.count()));
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::int64_t id =
        ids.dtype() == DType::int32 ? ids.data<std::int32_t>()[i] : ids.data<std::int64_t>()[i];
    if (ignore && id == *ignore)
      made[i] = ignored;
    else if (id < 0 || id >= rows)
      throw BadIndex("id", id, rows,
                     fmt::format("embed_id: id {} at place {} of {} is not in 0 .. {}", id, i,
                                 ids.shape().text(), rows - 1));
    else
      made[i] = id;
  }
  return made;
}

TASUKI_VECTORIZE void add_row(const float* from, float* to, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) to[j] += from[j];
}

}  // namespace

Tensor cpu_embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore) {
  Tensor y = Tensor::empty(check_embed(w, ids), w.dtype());
  const std::vector<std::int64_t> rows = rows_of(ids, ignore, w.shape()[0]);
  const auto bytes = static_cast<std::size_t>(w.shape()[1]) * size_of(w.dtype());
  if (bytes == 0) return y;
  const auto* const from = static_cast<const std::byte*>(w.raw());
  auto* const to = static_cast<std::byte*>(y.raw());
  parallel_for(
      ids.count(), elementwise_grain / w.shape()[1], [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
          if (rows[i] == ignored)
            std::memset(to + i * bytes, 0, bytes);
          else
            std::memcpy(to + i * bytes, from + static_cast<std::size_t>(rows[i]) * bytes, bytes);
      });
  return y;
}

// Each thread has some of the columns and passes over all ids, so no two threads add to one place
// and the order is that of the ids.
void cpu_embed_backward(const Tensor& ids, const Tensor& dy, std::optional<std::int64_t> ignore,
                        const Tensor& dw, bool accumulate) {
  check_embed_backward(ids, dy, dw);
  if (!accumulate) dw.fill(0);
  const std::int64_t columns = dw.shape()[1];
  const std::vector<std::int64_t> rows = rows_of(ids, ignore, dw.shape()[0]);
  if (rows.empty() || columns == 0) return;
  const Tensor upstream = dy.plain();
  const FloatElements from(upstream);
  float* const to = dw.data<float>();
  constexpr std::int64_t line = 16;  // values that neighbouring threads do not share
  const std::int64_t lines = (columns + line - 1) / line;
  const std::int64_t grain = elementwise_grain / (line * ids.count()) + 1;
  parallel_for(lines, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * line, count = std::min(columns, end * line) - first;
    FloatBuffers<1> buffer(from, count);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] != ignored)
        add_row(from.read(static_cast<std::int64_t>(i) * columns + first, count, buffer[0]),
                to + rows[i] * columns + first, count);
  });
}

}  // namespace tasuki
