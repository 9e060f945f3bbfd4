#include "tasuki/dataset/views.hpp"

#include <algorithm>
#include <utility>

namespace tasuki {
namespace {

class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)), header_(dataset_->header()) {
    for (const std::int64_t index : indices_)
      TASUKI_CHECK(0 <= index && index < dataset_->size(), "example {} of a data set of {}", index,
                   dataset_->size());
    header_.count = static_cast<std::int64_t>(indices_.size());
  }

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override {
    return dataset_->stored_bytes() + indices_.size() * sizeof(indices_[0]);
  }
  std::int64_t id(std::int64_t i) const override { return dataset_->id(index_of(i)); }
  void read_stored(std::span<const std::int64_t> indices, std::byte* values,
                   std::int32_t* labels) const override {
    dataset_->read_stored(translated(indices), values, labels);
  }
  StoredExample in_place(std::int64_t i) const override { return dataset_->in_place(index_of(i)); }
  std::optional<SeededImageTransform> device_transform() const override {
    return dataset_->device_transform();
  }
  bool read_transformed(std::span<const std::int64_t> indices, std::int64_t epoch, float* x,
                        std::int32_t* t) const override {
    return dataset_->read_transformed(translated(indices), epoch, x, t);
  }

 private:
  std::int64_t index_of(std::int64_t i) const {
    TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
    return indices_[static_cast<std::size_t>(i)];
  }
  std::vector<std::int64_t> translated(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> result;
    result.reserve(indices.size());
    for (const std::int64_t i : indices) result.push_back(index_of(i));
    return result;
  }

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
  DatasetHeader header_;
};

class EmptyDataset final : public Dataset {
 public:
  explicit EmptyDataset(std::int64_t count) : header_{count, Shape{0}, 0, DType::uint8} {}

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override { return 0; }
  void read_stored(std::span<const std::int64_t> indices, std::byte*,
                   std::int32_t* labels) const override {
    std::fill_n(labels, indices.size(), -1);
  }

 private:
  DatasetHeader header_;
};

}  // namespace

std::shared_ptr<const Dataset> subset_of(std::shared_ptr<const Dataset> dataset,
                                         std::vector<std::int64_t> indices) {
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

std::shared_ptr<const Dataset> create_empty_dataset(const Dataset& dataset) {
  return std::make_shared<EmptyDataset>(dataset.size());
}

}  // namespace tasuki
