#include "dataset/transform.hpp"

#include <utility>

namespace tasuki {
namespace {

class Transformed final : public Dataset {
 public:
  Transformed(std::shared_ptr<const Dataset> dataset, Transform transform, std::size_t field)
      : dataset_(std::move(dataset)), transform_(std::move(transform)), field_(field) {}

  const DatasetHeader& header() const override { return dataset_->header(); }
  std::size_t stored_bytes() const override { return dataset_->stored_bytes(); }
  std::int64_t id(std::int64_t i) const override { return dataset_->id(i); }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    dataset_->read(i, field, into);
  }
  FieldArray array(std::size_t field) const override { return dataset_->array(field); }
  LocatedExamples locate(std::span<const std::int64_t> examples, std::size_t field) const override {
    return dataset_->locate(examples, field);
  }
  const Transform* transform(std::size_t field) const override {
    return field == field_ ? &transform_ : dataset_->transform(field);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
  std::size_t field_;
};

}  // namespace

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           Transform transform, std::string_view name) {
  const std::size_t number = dataset->header().index_of(name);
  const Field& field = dataset->header().fields[number];
  if (field.is_ragged || field.decoded != DType::float32)
    fail(ErrorKind::usage,
         "field '{}' cannot be transformed: expected float32 values of one shape, found {}{}", name,
         field.is_ragged ? "ragged " : "", name_of(field.decoded));
  if (dataset->transform(number) != nullptr)
    fail(ErrorKind::usage,
         "field '{}' is transformed already, and a transform reads examples as stored: make one "
         "transform that does both (programs: leave --augment out)",
         name);
  return std::make_shared<Transformed>(std::move(dataset), std::move(transform), number);
}

}  // namespace tasuki
