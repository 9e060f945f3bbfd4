// Fields: the components of a data set's examples, and how they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

struct Field {
  std::string name;
  Shape shape = {};               // of one example; {}: one number
  DType stored = DType::float32;  // in memory and between ranks
  // In batches. Equal to `stored`, or: uint8 to float32 (value / 255), uint8 to int32 or int64 (the
  // value), float16 or float64 to float32.
  DType decoded = DType::float32;
  bool is_target = false;    // keeps its type in batches for half-precision training
  std::int64_t classes = 0;  // labels: 0 .. classes - 1; a negative one is an error of kind data
  // In integer targets, if set: the label of elements that do not count. A batch's mean loss is
  // then over this field's other elements (Batch::weight), not over examples, and the gradient is
  // the mean over such elements of all ranks. A ragged field is padded with this label. At most one
  // field of a data set has one.
  std::optional<std::int64_t> ignored_label = {};
  // Ragged fields: the length of axis 0 differs between examples; at most shape[0] if that is not
  // 0.
  bool is_ragged = false;
  double padding = 0;       // value that pads batches at the end of axis 0
  std::int64_t pad_to = 1;  // batches are padded to a multiple of it, for fewer different shapes
  // Stored as image files of any size (image_folder.hpp), which are decoded to uint8 of `shape`.
  bool is_image_file = false;
  bool ignores_exif = false;  // image files are not rotated (exif.hpp)

  // Whether the number of bytes as stored differs between examples.
  bool is_variable() const { return is_ragged || is_image_file; }
  // Bytes as stored of an example (for image files: of the decoded pixels), or of one element along
  // axis 0 of a ragged field.
  std::size_t stored_bytes() const;
  // Shape of a batch, with ragged examples padded to `length`.
  Shape batch_shape(std::int64_t examples, std::int64_t length = 0) const;
  // Length of a batch whose longest example has `longest` elements along axis 0.
  std::int64_t padded_length(std::int64_t longest) const;
  // A usage error if the settings do not fit each other.
  void check() const;

  friend bool operator==(const Field&, const Field&) = default;
};

// The description of a data set, which is known before its examples are read.
struct DatasetHeader {
  std::int64_t count = 0;  // examples
  std::vector<Field> fields;

  // By name; a usage error lists the fields.
  const Field& field(std::string_view name) const { return fields[index_of(name)]; }
  Field& field(std::string_view name) { return fields[index_of(name)]; }
  std::size_t index_of(std::string_view name) const;
  // A usage error where a field's settings do not fit each other, or two fields have one name.
  void check() const;
  bool has(std::string_view name) const;
  // Bytes of an example as stored, variable fields not counted.
  std::size_t fixed_bytes() const;
  // Shapes of the fields other than targets: "784", "3x32x32", "left 4, right 4".
  std::string shape_text() const;
};

// For classification: "x", stored as uint8 (decoded as value / 255) or float32, and one int32 label
// "t" per example. Without classes labels may have any value.
DatasetHeader classification_header(std::int64_t count, const Shape& example, std::int64_t classes,
                                    DType stored = DType::uint8);

// A header as numbers, to be sent to other ranks.
std::vector<std::int64_t> encode_header(const DatasetHeader& header);
DatasetHeader decode_header(std::span<const std::int64_t> numbers);

// Writes one field of an example, as stored.
class FieldWriter {
 public:
  // Appends to what is in `buffer`.
  FieldWriter(const Field& field, std::vector<std::byte>& buffer);

  const Field& field() const { return field_; }
  // Call it first for variable fields: sets the number of elements along axis 0, or of bytes of a
  // file. More than the field allows is an error of kind data.
  void resize(std::int64_t length);
  std::span<std::byte> bytes() { return std::span(buffer_).subspan(begin_); }
  // T is the stored type.
  template <class T>
  std::span<T> as() {
    TASUKI_CHECK(field_.stored == dtype_of<T>, "field '{}' is stored as {}, not {}", field_.name,
                 name_of(field_.stored), name_of(dtype_of<T>));
    const std::span<std::byte> all = bytes();
    return {reinterpret_cast<T*>(all.data()), all.size() / sizeof(T)};
  }

 private:
  const Field& field_;
  std::vector<std::byte>& buffer_;
  std::size_t begin_;
};

}  // namespace tasuki
