#include "tasuki/dataset/dataset.hpp"

#include <algorithm>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/dataset/decode.hpp"

namespace tasuki {

void Dataset::read(std::span<const std::int64_t> indices, std::int64_t /*epoch*/, float* x,
                   std::int32_t* t) const {
  std::vector<std::byte> values(indices.size() * header().value_bytes());
  read_stored(indices, values.data(), t);
  decode(values.data(), header().stored, x,
         static_cast<std::int64_t>(indices.size()) * header().example_shape.count());
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
  Batch batch{Tensor::empty(Shape(axes)), Tensor::empty({size}, DType::int32), {}, epoch};
  dataset.read(indices, epoch, batch.x.data<float>(), batch.t.data<std::int32_t>());
  report_progress();
  check_labels(dataset, indices, batch.t.span<std::int32_t>());
  batch.ids.reserve(indices.size());
  for (const std::int64_t index : indices) batch.ids.push_back(dataset.id(index));
  return batch;
}

}  // namespace tasuki
