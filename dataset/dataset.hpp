// Dataset: examples of one shape with a label each, read in batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tasuki/dataset/batch.hpp"
#include "tasuki/tensor/image_transform.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// What is known of a data set before its examples are read.
struct DatasetHeader {
  std::int64_t count = 0;       // examples
  Shape example_shape;          // 784 or 3 x 32 x 32
  std::int64_t classes = 0;     // labels are 0 .. classes - 1; 0: there are none
  DType stored = DType::uint8;  // uint8: decoded as value / 255; float32: as it is
  // Whether examples are handed out as image files of any length (image_folder.hpp), which are
  // decoded to uint8 whenever they are read.
  bool encoded = false;

  // Bytes of one example as stored (where encoded: as decoded), without its label.
  std::size_t value_bytes() const {
    return static_cast<std::size_t>(example_shape.count()) * size_of(stored);
  }
};

// An example where it lies in memory, as stored.
struct StoredExample {
  const std::byte* values = nullptr;
  std::int32_t label = 0;
};

// Random access to examples. All reading is const and thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetHeader& header() const = 0;
  // Bytes of memory that hold the examples (as stored, not as decoded).
  virtual std::size_t stored_bytes() const = 0;
  // Number of example i in the data set that it was scattered from (i itself when it was not).
  virtual std::int64_t id(std::int64_t i) const { return i; }
  // Copies examples as stored: header().value_bytes() each, and their labels.
  virtual void read_stored(std::span<const std::int64_t> indices, std::byte* values,
                           std::int32_t* labels) const = 0;
  // Example i without a copy; values are null in a data set that has to make or decode it.
  virtual StoredExample in_place(std::int64_t) const { return {}; }
  // Examples as floats, into x (values of the example shape each) and t: the stored values,
  // decoded, unless read_transformed() makes something else of them.
  virtual void read(std::span<const std::int64_t> indices, std::int64_t epoch, float* x,
                    std::int32_t* t) const final;
  // Overridden by data sets that transform their examples (transform.hpp): writes what read() is to
  // give, which may depend on the epoch, and returns true. Called without indices for the answer
  // alone.
  virtual bool read_transformed(std::span<const std::int64_t> /*indices*/, std::int64_t /*epoch*/,
                                float* /*x*/, std::int32_t* /*t*/) const {
    return false;
  }
  bool is_transformed() const { return read_transformed({}, 0, nullptr, nullptr); }
  // What a device has to do to the stored values to get the same, where it can.
  virtual std::optional<SeededImageTransform> device_transform() const { return {}; }

  std::int64_t size() const { return header().count; }
  const Shape& example_shape() const { return header().example_shape; }
  std::int64_t classes() const { return header().classes; }
};

// Example i as stored: in place, or read into `copy`.
StoredExample read_one(const Dataset& dataset, std::int64_t i, std::vector<std::byte>& copy);

// An error of kind data when a label is negative. Losses leave such examples out, but a training
// step is the mean over all examples of the global batch, whose number every rank knows without
// asking. Data sets without classes may have any labels.
void check_labels(const Dataset& dataset, std::span<const std::int64_t> indices,
                  std::span<const std::int32_t> labels);

// These examples as a batch with fields "x" (float32) and "t" (int32); their labels are checked.
Batch read_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                 std::int64_t epoch = 0);

}  // namespace tasuki
