#include "tasuki/dataset/dataset.hpp"

#include <algorithm>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/dataset/decode.hpp"

namespace tasuki {
namespace {

void fetch_early(const std::byte* values, std::size_t bytes) {
  constexpr std::size_t line = 64, most = 16 * line;  // the rest of a larger one follows by itself
  for (std::size_t offset = 0; values && offset < std::min(bytes, most); offset += line)
    __builtin_prefetch(values + offset);
}

}  // namespace

StoredExample read_one(const Dataset& dataset, std::int64_t i, std::vector<std::byte>& copy) {
  StoredExample example = dataset.in_place(i);
  if (example.values != nullptr) return example;
  copy.resize(dataset.header().value_bytes());
  dataset.read_stored({&i, 1}, copy.data(), &example.label);
  example.values = copy.data();
  return example;
}

void Dataset::read(std::span<const std::int64_t> indices, std::int64_t epoch, float* x,
                   std::int32_t* t) const {
  if (read_transformed(indices, epoch, x, t) || indices.empty()) return;
  const std::int64_t count = example_shape().count();
  std::vector<std::byte> copy;
  if (in_place(indices.front()).values == nullptr) {
    copy.resize(indices.size() * header().value_bytes());
    read_stored(indices, copy.data(), t);
    decode(copy.data(), header().stored, x, std::ssize(indices) * count);
    return;
  }
  for (std::size_t at = 0; at < indices.size(); ++at, x += count) {
    // Shuffled examples lie far apart, where the processor does not look ahead by itself.
    constexpr std::size_t ahead = 4;
    if (at + ahead < indices.size())
      fetch_early(in_place(indices[at + ahead]).values, header().value_bytes());
    const StoredExample example = read_one(*this, indices[at], copy);
    decode(example.values, header().stored, x, count);
    t[at] = example.label;
  }
}

void check_labels(const Dataset& dataset, std::span<const std::int64_t> indices,
                  std::span<const std::int32_t> labels) {
  if (dataset.classes() == 0) return;
  const auto found =
      std::find_if(labels.begin(), labels.end(), [](auto label) { return label < 0; });
  if (found == labels.end()) return;
  const std::int64_t index = indices[static_cast<std::size_t>(found - labels.begin())];
  fail(ErrorKind::data,
       "example {} has label {}, expected 0 .. {}; leave examples that are not to count out of the "
       "data set",
       dataset.id(index), *found, dataset.classes() - 1);
}

Batch read_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                 std::int64_t epoch) {
  const auto size = static_cast<std::int64_t>(indices.size());
  std::vector<std::int64_t> axes{size};
  axes.insert(axes.end(), dataset.example_shape().begin(), dataset.example_shape().end());
  const Tensor x = Tensor::empty(Shape(axes)), t = Tensor::empty({size}, DType::int32);
  dataset.read(indices, epoch, x.data<float>(), t.data<std::int32_t>());
  report_progress();
  check_labels(dataset, indices, t.span<std::int32_t>());
  std::vector<std::int64_t> ids;
  ids.reserve(indices.size());
  for (const std::int64_t index : indices) ids.push_back(dataset.id(index));
  return {{{.name = "x", .values = x}, {.name = "t", .values = t, .is_target = true}},
          std::move(ids),
          epoch};
}

}  // namespace tasuki
