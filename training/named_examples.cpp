#include "tasuki/training/named_examples.hpp"

#include <algorithm>

namespace tasuki {
namespace {

// The place of the first such value, or the number of values if there is none.
template <class T>
std::int64_t place_of(std::int64_t value, const Tensor& values) {
  const std::span<const T> all = values.span<T>();
  return std::ranges::find(all, static_cast<T>(value)) - all.begin();
}

bool has_integers(const BatchField& field) {
  return field.values && field.values.device().is_cpu() &&
         (field.values.dtype() == DType::int32 || field.values.dtype() == DType::int64);
}

}  // namespace

void detail::fail_on_index(const Batch& batch, const BadIndex& bad) {
  for (const BatchField& field : batch.fields()) {
    if (batch.size() == 0 || !has_integers(field)) continue;
    const std::int64_t place = field.values.dtype() == DType::int64
                                   ? place_of<std::int64_t>(bad.value(), field.values)
                                   : place_of<std::int32_t>(bad.value(), field.values);
    if (place == field.values.count()) continue;
    const std::int64_t example = place / (field.values.count() / batch.size());
    fail(ErrorKind::data, "example {} has {} {}, expected 0 .. {} for a model of {}",
         batch.ids()[static_cast<std::size_t>(example)], bad.what_is_bad(), bad.value(),
         bad.count() - 1, bad.count());
  }
}

}  // namespace tasuki
