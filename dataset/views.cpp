#include "dataset/views.hpp"

#include <algorithm>
#include <map>
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
    // Places in memory of the fields of a subset of a subset: rows of rows.
    for (std::size_t field = 0; field < header_.fields.size(); ++field)
      if (const std::int64_t* const rows = dataset_->array(field).rows;
          rows && !rows_.contains(rows))
        for (std::vector<std::int64_t>& own = rows_[rows]; const std::int64_t index : indices_)
          own.push_back(rows[index]);
  }

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override {
    return dataset_->stored_bytes() + indices_.size() * sizeof(indices_[0]);
  }
  std::int64_t id(std::int64_t i) const override { return dataset_->id(index_of(i)); }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    dataset_->read(index_of(i), field, into);
  }
  LocatedExamples locate(std::span<const std::int64_t> examples, std::size_t field) const override {
    std::vector<std::int64_t> indices;
    indices.reserve(examples.size());
    for (const std::int64_t i : examples) indices.push_back(index_of(i));
    return dataset_->locate(indices, field);
  }
  FieldArray array(std::size_t field) const override {
    FieldArray array = dataset_->array(field);
    array.rows = array.rows ? rows_.at(array.rows).data() : indices_.data();
    return array;
  }
  const Transform* transform(std::size_t field) const override {
    return dataset_->transform(field);
  }

 private:
  std::int64_t index_of(std::int64_t i) const {
    TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
    return indices_[static_cast<std::size_t>(i)];
  }

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
  std::map<const std::int64_t*, std::vector<std::int64_t>> rows_;  // by those of `dataset_`
  DatasetHeader header_;
};

// Whether each example has the same number of labels.
bool has_labels(const Field& field) {
  return field.is_target && !field.is_ragged &&
         (field.decoded == DType::int32 || field.decoded == DType::int64);
}

class EmptyDataset final : public Dataset {
 public:
  explicit EmptyDataset(DatasetHeader header) : header_(std::move(header)) {
    for (Field& field : header_.fields) {
      field.is_image_file = false;
      field.classes = 0;  // -1 is not a class
      if (has_labels(field))
        field.stored = field.decoded;  // uint8 cannot hold -1
      else if (!field.is_ragged)
        field.shape = field.shape.rank() == 0 ? Shape{0} : field.shape.with_items(0);
    }
  }

  const DatasetHeader& header() const override { return header_; }
  void read(std::int64_t, std::size_t field, FieldWriter& into) const override {
    const Field& read = header_.fields[field];
    if (read.is_ragged) return into.resize(0);
    if (!has_labels(read)) return;
    if (read.stored == DType::int32)
      std::ranges::fill(into.as<std::int32_t>(), -1);
    else
      std::ranges::fill(into.as<std::int64_t>(), -1);
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
  return std::make_shared<EmptyDataset>(dataset.header());
}

}  // namespace tasuki
