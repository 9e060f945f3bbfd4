#include "tasuki/training/batch_memory.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "tasuki/nn/variable.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/out_of_memory.hpp"

namespace tasuki {
namespace {

// Nothing when there is not enough memory.
std::optional<std::size_t> peak_if_it_fits(const BatchSearch& search, std::int64_t n) {
  try {
    return search.peak_of(n);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// By two small steps of this rank alone; the smaller one first, as scratch memory only grows.
std::int64_t foretell(const BatchSearch& search) {
  constexpr std::int64_t first_try = 32;
  for (std::int64_t n = std::min(first_try, search.limit); n > 1; n /= 2) {
    const auto smaller = peak_if_it_fits(search, n / 2);
    const auto larger = smaller ? peak_if_it_fits(search, n) : std::nullopt;
    if (!larger) continue;
    const double growth = static_cast<double>(*larger) - static_cast<double>(*smaller);
    const double each = std::max(growth / static_cast<double>(n - n / 2), 1.0);
    const double room = static_cast<double>(search.capacity) - static_cast<double>(*larger);
    const double most = static_cast<double>(n) + room / each;
    return static_cast<std::int64_t>(std::clamp(most, 1.0, static_cast<double>(search.limit)));
  }
  return peak_if_it_fits(search, 1) ? 1 : 0;
}

}  // namespace

StepMemory measure_step(std::int64_t n, const DatasetHeader& header, Device device, DType dtype,
                        const LossFunction& loss) {
  Backend& memory = backend(device);
  memory.reset_peak_memory(device);
  const std::size_t before = memory.memory(device).in_use;
  std::vector<std::int64_t> sizes = {n};
  sizes.insert(sizes.end(), header.example_shape.begin(), header.example_shape.end());
  Batch batch;
  batch.x = Tensor::zeros(Shape(sizes), dtype, device);
  batch.t = Tensor::zeros({n}, DType::int32, device);
  batch.ids.resize(static_cast<std::size_t>(n));
  random_context() = {0, 0, batch.ids, 0};
  Observation unused;
  const Variable result = loss(batch, unused);
  StepMemory found;
  found.held = memory.memory(device).in_use - before;
  result.backward();
  found.peak = memory.memory(device).peak;
  return found;
}

std::int64_t find_largest_batch(const BatchSearch& search) {
  std::int64_t n = search.least(foretell(search));
  while (n > 0) {
    search.trying(n);
    const bool fits = peak_if_it_fits(search, n).has_value();
    if (search.least(fits ? 1 : 0) == 1) return n;
    n = n * 9 / 10;
  }
  return 0;
}

}  // namespace tasuki
