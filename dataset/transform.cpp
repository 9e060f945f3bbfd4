#include "tasuki/dataset/transform.hpp"

#include <utility>
#include <vector>

#include "tasuki/core/activity.hpp"

namespace tasuki {
namespace {

class Transformed final : public Dataset {
 public:
  Transformed(std::shared_ptr<const Dataset> dataset, Transform transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}

  const DatasetHeader& header() const override { return dataset_->header(); }
  std::size_t stored_bytes() const override { return dataset_->stored_bytes(); }
  std::int64_t id(std::int64_t i) const override { return dataset_->id(i); }
  StoredExample in_place(std::int64_t i) const override { return dataset_->in_place(i); }
  std::optional<SeededImageTransform> device_transform() const override {
    return transform_.on_device;
  }
  void read_stored(std::span<const std::int64_t> indices, std::byte* values,
                   std::int32_t* labels) const override {
    dataset_->read_stored(indices, values, labels);
  }

  bool read_transformed(std::span<const std::int64_t> indices, std::int64_t epoch, float* x,
                        std::int32_t* t) const override {
    std::vector<std::byte> copy;
    for (const std::int64_t i : indices) {
      const StoredExample example = read_one(*dataset_, i, copy);
      transform_(example.values, {epoch, id(i)}, x);
      report_progress();
      *t = example.label;
      x += header().example_shape.count();
      ++t;
    }
    return true;
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
};

}  // namespace

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           Transform transform) {
  return std::make_shared<Transformed>(std::move(dataset), std::move(transform));
}

}  // namespace tasuki
