#include "training/batch_memory.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "nn/random.hpp"
#include "nn/value_memory.hpp"
#include "tensor/backend.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki {
namespace {

// Nothing if there is not enough memory.
std::optional<std::vector<std::size_t>> peaks_if_they_fit(const BatchSearch& search,
                                                          std::int64_t n) {
  try {
    std::vector<std::size_t> peaks = search.peaks_of(n);
    TASUKI_CHECK(peaks.size() == search.capacities.size(), "peaks of {} places, there are {}",
                 peaks.size(), search.capacities.size());
    return peaks;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// Predicts from two small steps of this rank alone; the smaller one first, because scratch memory
// only grows.
std::int64_t foretell(const BatchSearch& search) {
  constexpr std::int64_t first_try = 32;
  for (std::int64_t n = std::min(first_try, search.limit); n > 1; n /= 2) {
    const auto smaller = peaks_if_they_fit(search, n / 2);
    const auto larger = smaller ? peaks_if_they_fit(search, n) : std::nullopt;
    if (!larger) continue;
    auto most = static_cast<double>(search.limit);
    for (std::size_t i = 0; i < larger->size(); ++i) {
      const auto peak = static_cast<double>((*larger)[i]);
      const double growth = peak - static_cast<double>((*smaller)[i]);
      const std::int64_t added = n - n / 2;
      const double each = std::max(growth / static_cast<double>(added), 1.0);
      const double room = static_cast<double>(search.capacities[i]) - peak;
      most = std::min(most, static_cast<double>(n) + room / each);
    }
    return static_cast<std::int64_t>(std::max(most, 1.0));
  }
  return peaks_if_they_fit(search, 1) ? 1 : 0;
}

bool has_unknown_length(const Field& field) {
  return field.is_ragged && field.shape[0] == 0;
}

// `bytes`: of the field's longest example, as stored.
void set_longest(Field& field, std::size_t bytes) {
  field.shape = field.shape.with_items(static_cast<std::int64_t>(bytes / field.stored_bytes()));
}

std::int64_t longest(const Field& field) {
  if (!field.is_ragged) return 0;
  return field.padded_length(std::max<std::int64_t>(1, field.shape[0]));
}

}  // namespace

bool has_unknown_lengths(const DatasetHeader& header) {
  return std::ranges::any_of(header.fields, has_unknown_length);
}

DatasetHeader with_longest_examples(DataSource& source) {
  DatasetHeader header = source.header();
  if (!has_unknown_lengths(header)) return header;
  std::vector<std::size_t> bytes(header.fields.size());  // of the longest
  for (RecordBlock block; source.read_block(block);)
    for (std::size_t number = 0; number < bytes.size(); ++number)
      for (std::int64_t i = 0; i < block.count; ++i)
        bytes[number] = std::max(bytes[number], block.at(number, i).size());
  for (std::size_t number = 0; number < bytes.size(); ++number)
    if (Field& field = header.fields[number]; has_unknown_length(field))
      set_longest(field, bytes[number]);
  return header;
}

DatasetHeader with_longest_examples(const Dataset& dataset) {
  DatasetHeader header = dataset.header();
  for (std::size_t number = 0; number < header.fields.size(); ++number) {
    Field& field = header.fields[number];
    if (!has_unknown_length(field)) continue;
    std::size_t bytes = 0;
    StoredField stored(dataset, number);
    for (std::int64_t i = 0; i < header.count; ++i) bytes = std::max(bytes, stored[i].size());
    set_longest(field, bytes);
  }
  return header;
}

Batch zero_batch(std::int64_t n, const DatasetHeader& header, DType dtype, Device device) {
  std::vector<BatchField> fields;
  for (const Field& field : header.fields) {
    const Shape shape = field.batch_shape(n, longest(field));
    const bool is_as_model = field.decoded == DType::float32 && !field.is_target;
    BatchField made{.name = field.name,
                    .values = Tensor::zeros(shape, is_as_model ? dtype : field.decoded, device),
                    .is_target = field.is_target};
    if (field.is_ragged)
      made.lengths = Tensor::full({n}, static_cast<double>(shape[1]), DType::int64, device);
    fields.push_back(std::move(made));
  }
  return {std::move(fields), std::vector<std::int64_t>(static_cast<std::size_t>(n))};
}

std::size_t batch_bytes(const DatasetHeader& header) {
  std::size_t bytes = 0;
  for (const Field& field : header.fields)
    bytes += static_cast<std::size_t>(field.batch_shape(1, longest(field)).count()) *
             size_of(field.decoded);
  return bytes;
}

BatchMemory measure_step(std::int64_t n, const DatasetHeader& header, Device device, DType dtype,
                         const LossFunction& loss) {
  Backend& memory = backend(device);
  memory.reset_peak_memory(device);
  const std::size_t before = memory.memory(device).in_use;
  const Batch batch = zero_batch(n, header, dtype, device);
  RandomKeys keys(0);
  keys.follow(0, batch.ids());
  const RandomScope random(keys);
  Observation unused;
  const UnreadValues unread;
  const Variable result = loss(batch, unused);
  BatchMemory found;
  found.held = memory.memory(device).in_use - before;
  result.backward();
  found.peak = memory.memory(device).peak;
  found.step = found.peak - std::min(found.peak, before);
  return found;
}

std::int64_t find_largest_batch(const BatchSearch& search) {
  std::int64_t n = search.least(foretell(search));
  while (n > 0) {
    search.trying(n);
    const bool fits = peaks_if_they_fit(search, n).has_value();
    if (search.least(fits ? 1 : 0) == 1) return n;
    n = n * 9 / 10;
  }
  return 0;
}

}  // namespace tasuki
