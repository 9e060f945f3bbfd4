#include "dataset/dataset.hpp"

#include "core/activity.hpp"
#include "dataset/images/image_record.hpp"

namespace tasuki {

bool Dataset::is_transformed() const {
  for (std::size_t field = 0; field < header().fields.size(); ++field)
    if (transform(field) != nullptr) return true;
  return false;
}

StoredField::StoredField(const Dataset& dataset, std::size_t field)
    : dataset_(dataset),
      number_(field),
      field_(dataset.header().fields[field]),
      bytes_(field_.stored_bytes()),
      array_(dataset.array(field)) {}

std::span<const std::byte> StoredField::read(std::int64_t i) {
  if (array_.examples != nullptr) return array_.examples[row_of(i)];
  copy_.clear();
  FieldWriter writer(field_, copy_);
  dataset_.read(i, number_, writer);
  return copy_;
}

std::span<const std::byte> StoredField::decode_image(std::int64_t i) {
  pixels_.resize(bytes_);
  decode_image_record((*this)[i], field_, pixels_.data());
  report_progress();
  return pixels_;
}

}  // namespace tasuki
