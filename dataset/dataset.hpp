// Dataset: examples of named fields, read in batches (read_batch.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataset/batch.hpp"
#include "dataset/field.hpp"

namespace tasuki {

struct Transform;  // transform.hpp

// All examples of a field, as stored, at their places in memory.
struct FieldArray {
  const std::byte* values = nullptr;  // contiguous examples, if all have the same length
  const std::span<const std::byte>* examples = nullptr;  // for variable fields: one span each
  // Example i is stored at index rows[i]; null: at index i.
  const std::int64_t* rows = nullptr;
};

// Some examples of a field, as stored, anywhere in memory.
struct LocatedExamples {
  std::vector<const std::byte*> places = {};             // one for each
  std::vector<std::shared_ptr<const void>> owners = {};  // of that memory
};

// Random access to examples. Derived classes must allow several threads to read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetHeader& header() const = 0;
  // Writes field `field` (its number in the header) of example i, as stored.
  virtual void read(std::int64_t i, std::size_t field, FieldWriter& into) const = 0;
  // The number of example i in the data set that it was scattered from (i if it was not).
  virtual std::int64_t id(std::int64_t i) const { return i; }
  // Bytes of memory that hold the examples; 0 if they are made or read on demand.
  virtual std::size_t stored_bytes() const { return 0; }
  // The places of a field in memory, so that a batch is read without a virtual call for each
  // example; empty if the field is not in memory. Valid as long as the data set exists.
  virtual FieldArray array(std::size_t /*field*/) const { return {}; }
  // For data sets that find the examples of a batch faster together than one by one: a field of
  // these examples, of a fixed length, as stored. Without places, they are read one by one.
  virtual LocatedExamples locate(std::span<const std::int64_t> /*examples*/,
                                 std::size_t /*field*/) const {
    return {};
  }
  // The transform that brings a field into a batch (transform.hpp); null: the field is decoded.
  virtual const Transform* transform(std::size_t /*field*/) const { return nullptr; }

  std::int64_t size() const { return header().count; }
  bool is_transformed() const;
};

// Converts `count` values of a field as they are stored to values as they are in batches. uint8 to
// float32 is value / 255, rounded correctly; Field::decoded lists the other conversions.
using Decoder = void (*)(const std::byte* values, std::byte* destination, std::int64_t count);
Decoder decoder_of(DType stored, DType decoded);

// The examples of one field as stored, one at a time: in place, or read into a buffer.
class StoredField {
 public:
  // The data set must outlive this object.
  StoredField(const Dataset& dataset, std::size_t field);
  // Valid until the next call.
  std::span<const std::byte> operator[](std::int64_t i) {
    if (array_.values == nullptr) return read(i);
    return {array_.values + static_cast<std::size_t>(row_of(i)) * bytes_, bytes_};
  }
  // The same, with image files decoded to pixels.
  std::span<const std::byte> decoded(std::int64_t i) {
    return field_.is_image_file ? decode_image(i) : (*this)[i];
  }
  // Has the processor prefetch an example that will soon be read. Always inline, because GCC drops
  // calls of a function that only prefetches.
  [[gnu::always_inline]] void fetch_early(std::int64_t i) const {
    if (array_.values != nullptr)
      fetch_early(array_.values + static_cast<std::size_t>(row_of(i)) * bytes_, bytes_);
  }
  [[gnu::always_inline]] static void fetch_early(const std::byte* values, std::size_t bytes) {
    constexpr std::size_t line = 64,
                          most = 16 * line;  // the processor prefetches the rest of a larger one
    if (bytes < line) return;
    for (std::size_t offset = 0; offset < std::min(bytes, most); offset += line)
      __builtin_prefetch(values + offset);
  }

 private:
  std::int64_t row_of(std::int64_t i) const { return array_.rows ? array_.rows[i] : i; }
  std::span<const std::byte> read(std::int64_t i);
  std::span<const std::byte> decode_image(std::int64_t i);

  const Dataset& dataset_;
  std::size_t number_;
  const Field& field_;
  std::size_t bytes_;
  FieldArray array_;
  std::vector<std::byte> copy_, pixels_;
};

// Throws an error of kind data if a label of field `field` is not one of its classes. (Losses would
// ignore a negative label, but a training step divides by the number of all examples in the global
// batch.) Fields without classes, padding of ragged fields and ignored labels may have any values.
// `values`: the decoded values of the examples `indices`; `lengths`: their lengths if the field is
// ragged.
void check_labels(const Dataset& dataset, std::size_t field, std::span<const std::int64_t> indices,
                  const Tensor& values, const Tensor& lengths = {});

// check_labels() for the label of example `id`.
void check_label_in(const Field& field, std::int64_t label, std::int64_t id);

// Call it in a handler of this error. Rethrows it, with the example's number if it is about data
// (kinds data, missing and io).
[[noreturn]] void rethrow_of_example(const Error& error, std::int64_t id);

// These examples as a batch of all fields, with their ids; labels are checked. An error about an
// example's data gives its number in the whole data set.
Batch read_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                 std::int64_t epoch = 0);
// One field of such a batch.
BatchField read_field(const Dataset& dataset, std::size_t field,
                      std::span<const std::int64_t> indices, std::int64_t epoch = 0);
// For each example, the number of elements without the field's ignored label, which must be set.
// `values`: decoded values of a batch.
std::vector<std::int64_t> count_targets(const Field& field, const Tensor& values);

}  // namespace tasuki
