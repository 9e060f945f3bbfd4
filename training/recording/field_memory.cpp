#include "training/recording/field_memory.hpp"

#include <algorithm>
#include <utility>

namespace tasuki {

void copy_field(const BatchField& from, const BatchField& to) {
  if (!to.source && to.values.raw() != from.values.raw()) to.values.copy_from(from.values);
  if (to.lengths && to.lengths.raw() != from.lengths.raw()) to.lengths.copy_from(from.lengths);
}

Batch FieldMemory::place(const Batch& batch, bool all) {
  Batch placed = batch;
  for (const BatchField& given : batch.fields()) {
    BatchField field = given;
    if (!given.source && (all || given.values.device() != device_))
      field.values = memory_for(given.name, given.values);
    if (given.lengths && (all || given.lengths.device() != device_))
      field.lengths = memory_for(given.name + " lengths", given.lengths);
    copy_field(given, field);
    placed.set(std::move(field));
  }
  return placed;
}

Tensor FieldMemory::memory_for(const std::string& name, const Tensor& values) {
  Tensor& memory = memory_[name];
  const auto bytes = static_cast<std::int64_t>(values.bytes());
  if (!memory || memory.count() < bytes)
    memory = Tensor::empty({std::max<std::int64_t>(bytes, 1)}, DType::uint8, device_);
  return {memory.storage(), 0, values.shape(), values.dtype()};
}

}  // namespace tasuki
