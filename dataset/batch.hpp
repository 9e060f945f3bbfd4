// Batch: the examples of one step, as named fields.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.hpp"

namespace tasuki {

// Makes the values of a field from data that are already in a device's memory (a resident data
// set). A recorded step calls make() once; before each replay only the rows are sent.
class FieldSource {
 public:
  virtual ~FieldSource() = default;
  virtual Device device() const = 0;
  // The shape of the values for a batch of this size.
  virtual Shape shape(std::int64_t examples) const = 0;
  // Makes the values. `rows` is Batch::rows() in the device's memory; `dtype` is the type of
  // floating-point values. Only queues device work, which must be the same for all batches of one
  // size.
  virtual Tensor make(const Tensor& rows, DType dtype) const = 0;
};

// One field of a batch: its values, or their source.
struct BatchField {
  std::string name;
  // N x (shape of an example). A ragged field is padded at the end to its longest example, rounded
  // up to a multiple of Field::pad_to.
  Tensor values = {};
  // For ragged fields: N int64, the length of each example. Otherwise undefined.
  Tensor lengths = {};
  // Field::pad_to of a ragged field.
  std::int64_t pad_to = 1;
  // Labels and targets keep their type when activations are float16 or bfloat16.
  bool is_target = false;
  // Set instead of `values`; the values are then made when they are first read.
  std::shared_ptr<const FieldSource> source = {};
};

// Copies share their tensors. Data sets for classification call their fields "x" (inputs) and "t"
// (labels). A batch whose fields have sources must be read by only one thread at a time.
class Batch {
 public:
  Batch() = default;
  // `ids`: the number of each example in the whole data set. Every field must have as many items
  // along axis 0 as there are ids; otherwise an error of kind internal names the field. `epoch`:
  // complete epochs before this batch.
  Batch(std::vector<BatchField> fields, std::vector<std::int64_t> ids, std::int64_t epoch = 0);

  // A field's values. An unknown name is a usage error that lists the fields.
  const Tensor& operator[](std::string_view name) const;
  // The lengths of a ragged field; a usage error for other fields.
  const Tensor& lengths(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The fields as stored; makes no values.
  const std::vector<BatchField>& fields() const { return fields_; }

  // N. A rank may have no examples in a step; all fields then have 0 items.
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  // The ids, on the host. A step whose work reads them is not recorded, because replays would reuse
  // the ids of the recorded batch (refuse_recording).
  std::span<const std::int64_t> ids() const;
  std::int64_t epoch() const;
  // Examples of this step on all ranks. An iterator knows this number on all ranks or on none; if
  // it is unknown, ranks add up their sizes in the step.
  std::optional<std::int64_t> global_size() const;
  void set_global_size(std::optional<std::int64_t> examples) { global_size_ = examples; }

  // The divisor of this batch's mean loss, and so the batch's weight in the mean over all ranks:
  // the number of targets that count (set_counted), by default size(). Updaters and evaluators
  // weight losses and gradients by it; ranks add up their weights.
  std::int64_t weight() const;
  // Sets for each example the number of targets that count (Field::ignored_label). Call it on all
  // ranks or on none. Steps whose work reads their sum on the host are not recorded.
  void set_counted(std::vector<std::int64_t> counted);
  const std::optional<std::vector<std::int64_t>>& counted() const { return counted_; }

  // Sets the positions of these examples in a source, one for each id.
  void set_positions(std::vector<std::int64_t> positions);
  // The input of FieldSource::make(): the epoch, then N positions, then N ids. Also on the host, so
  // a step whose work calls this is not recorded.
  std::vector<std::int64_t> rows() const;

  // Adds a field, or replaces the field of that name.
  void set(BatchField field);
  // All fields in the memory of `device`. `dtype` converts floating-point fields other than
  // targets. `rows`: rows() in the device's memory, for callers that have already sent them.
  Batch to(Device device, std::optional<DType> dtype = {}, const Tensor& rows = {}) const;
  // Examples [begin, end). The global size of a slice is unknown.
  Batch slice(std::int64_t begin, std::int64_t end) const;

  // Says how many examples are of each shard of this rank (shard_plan.hpp), in their order. Slices
  // do not know it.
  void set_shards(std::vector<std::int64_t> examples);
  // Empty: not known.
  const std::vector<std::int64_t>& shards() const { return shards_; }
  // The examples of shard `i` of this rank, as if they had been read by themselves: ragged fields
  // are padded to the longest of them.
  Batch shard(std::size_t i) const;

 private:
  const BatchField* find(std::string_view name) const;
  const BatchField& field(std::string_view name) const;
  void check(const BatchField& field) const;
  Tensor rows_on(Device device) const;

  mutable std::vector<BatchField> fields_;  // values are made when they are first read
  std::vector<std::int64_t> ids_, positions_, shards_;
  std::optional<std::vector<std::int64_t>> counted_;
  std::int64_t epoch_ = 0;
  std::optional<std::int64_t> global_size_;
};

}  // namespace tasuki
