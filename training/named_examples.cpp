#include "training/named_examples.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace tasuki {
namespace {

// The place of the first such value; nothing if there is none.
template <class T>
std::optional<std::int64_t> place_in(const Tensor& values, std::int64_t value) {
  const std::span<const T> all = values.span<T>();
  const auto found = std::ranges::find_if(all, [&](std::int64_t each) { return each == value; });
  return found == all.end() ? std::nullopt : std::optional(found - all.begin());
}

std::optional<std::int64_t> place_of(std::int64_t value, const BatchField& field) {
  if (!field.values || !field.values.device().is_cpu()) return std::nullopt;
  if (field.values.dtype() == DType::int64) return place_in<std::int64_t>(field.values, value);
  if (field.values.dtype() == DType::int32) return place_in<std::int32_t>(field.values, value);
  return std::nullopt;
}

}  // namespace

void detail::fail_on_index(const Batch& batch, const BadIndex& bad) {
  std::optional<std::int64_t> example;
  if (batch.size() == 0) return;
  for (const BatchField& field : batch.fields()) {
    const auto place = place_of(bad.value(), field);
    if (!place) continue;
    if (example) return;
    example = *place / (field.values.count() / batch.size());
  }
  if (!example) return;
  fail(ErrorKind::data, "example {} has {} {}, expected 0 .. {} for a model of {}",
       batch.ids()[static_cast<std::size_t>(*example)], bad.what_is_bad(), bad.value(),
       bad.count() - 1, bad.count());
}

}  // namespace tasuki
