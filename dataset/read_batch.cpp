// Reads examples into batches (read_batch, read_field): decodes or transforms them, pads ragged
// fields, checks labels.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "dataset/dataset.hpp"
#include "dataset/transform.hpp"
#include "tensor/half.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// --- decoding ---

TASUKI_VECTORIZE
void decode_pixels(const std::uint8_t* values, float* destination, std::int64_t count) {
  // 1 / 255 = 0x1.01010101...p-8 in two parts: the product with the first part is exact, so the sum
  // rounds like the quotient for each of the 256 values, in a fraction of a division's time.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(values[i]);
    destination[i] = value * 0x1.01p-8f + value * 0x1.010102p-24f;
  }
}

template <std::size_t bytes>
void copy(const std::byte* values, std::byte* destination, std::int64_t count) {
  // A label: a call would cost more than copying its few bytes.
  if (count == 1)
    std::memcpy(destination, values, bytes);
  else if (count > 0)
    std::memcpy(destination, values, static_cast<std::size_t>(count) * bytes);
}

template <class From, class To, class Convert>
void convert(const std::byte* values, std::byte* destination, std::int64_t count,
             const Convert& one) {
  auto* const to = reinterpret_cast<To*>(destination);
  const auto* const from = reinterpret_cast<const From*>(values);
  for (std::int64_t i = 0; i < count; ++i) to[i] = one(from[i]);
}

// --- reading ---

// Shuffled examples are far apart, where the processor does not prefetch automatically.
constexpr std::size_t fetched_ahead = 4;

void check_indices(const Dataset& dataset, std::span<const std::int64_t> indices) {
  const std::int64_t size = dataset.size();
  for (const std::int64_t i : indices)
    TASUKI_CHECK(0 <= i && i < size, "example {} of a data set of {}", i, size);
}

// Of examples that the data set may find together. If it cannot, each is asked for alone, to name
// the one that the error is about.
LocatedExamples locate(const Dataset& dataset, std::size_t number,
                       std::span<const std::int64_t> indices) {
  try {
    return dataset.locate(indices, number);
  } catch (const Error&) {
    for (const std::int64_t& i : indices) {
      try {
        dataset.locate({&i, 1}, number);
      } catch (const Error& error) {
        rethrow_of_example(error, dataset.id(i));
      }
    }
    throw;
  }
}

// Of examples that were found together.
void decode_located(const Dataset& dataset, std::size_t number,
                    std::span<const std::int64_t> indices, const LocatedExamples& located,
                    std::int64_t epoch, std::byte* to) {
  const Field& field = dataset.header().fields[number];
  const std::int64_t count = field.shape.count();
  const std::size_t step = static_cast<std::size_t>(count) * size_of(field.decoded);
  const Transform* const transform = dataset.transform(number);
  const Decoder decode = decoder_of(field.stored, field.decoded);
  std::size_t at = 0;
  try {
    for (; at < indices.size(); ++at, to += step) {
      if (at + fetched_ahead < indices.size())
        StoredField::fetch_early(located.places[at + fetched_ahead], field.stored_bytes());
      if (transform != nullptr) {
        (*transform)(located.places[at], {epoch, dataset.id(indices[at])},
                     reinterpret_cast<float*>(to));
        report_progress();
      } else {
        decode(located.places[at], to, count);
      }
    }
  } catch (const Error& error) {
    rethrow_of_example(error, dataset.id(indices[at]));
  }
}

// Copies the values of a field whose examples all have the same length.
Tensor read_even(const Dataset& dataset, std::size_t number, std::span<const std::int64_t> indices,
                 std::int64_t epoch) {
  const Field& field = dataset.header().fields[number];
  Tensor values = Tensor::empty(field.batch_shape(std::ssize(indices)), field.decoded);
  auto* to = static_cast<std::byte*>(values.raw());
  if (const LocatedExamples located = locate(dataset, number, indices); !located.places.empty()) {
    decode_located(dataset, number, indices, located, epoch, to);
    return values;
  }
  const std::int64_t count = field.shape.count();
  const std::size_t step = static_cast<std::size_t>(count) * size_of(field.decoded);
  const Transform* const transform = dataset.transform(number);
  const Decoder decode = decoder_of(field.stored, field.decoded);
  StoredField stored(dataset, number);
  std::size_t at = 0;
  try {
    for (; at < indices.size(); ++at, to += step) {
      if (at + fetched_ahead < indices.size()) stored.fetch_early(indices[at + fetched_ahead]);
      if (transform != nullptr) {
        transform->apply(stored, indices[at], {epoch, dataset.id(indices[at])},
                         reinterpret_cast<float*>(to));
        report_progress();
      } else {
        decode(stored.decoded(indices[at]).data(), to, count);
      }
    }
  } catch (const Error& error) {
    rethrow_of_example(error, dataset.id(indices[at]));
  }
  return values;
}

// Pads the examples of a ragged field to one length.
BatchField read_ragged(const Dataset& dataset, std::size_t number,
                       std::span<const std::int64_t> indices) {
  const Field& field = dataset.header().fields[number];
  // Reads all of them first, because the longest one decides the shape.
  std::vector<std::vector<std::byte>> copies(indices.size());
  std::vector<std::span<const std::byte>> examples(indices.size());
  const FieldArray array = dataset.array(number);
  for (std::size_t at = 0; at < indices.size(); ++at) {
    const std::int64_t i = indices[at];
    if (array.examples != nullptr) {
      examples[at] = array.examples[array.rows ? array.rows[i] : i];
    } else {
      FieldWriter writer(field, copies[at]);
      try {
        dataset.read(i, number, writer);
      } catch (const Error& error) {
        rethrow_of_example(error, dataset.id(i));
      }
      examples[at] = copies[at];
    }
  }
  const Tensor lengths = Tensor::empty({std::ssize(indices)}, DType::int64);
  const std::span<std::int64_t> length_of = lengths.span<std::int64_t>();
  for (std::size_t at = 0; at < examples.size(); ++at)
    length_of[at] = static_cast<std::int64_t>(examples[at].size() / field.stored_bytes());
  const std::int64_t longest =
      examples.empty() ? 0 : *std::max_element(length_of.begin(), length_of.end());
  const std::int64_t length = field.padded_length(longest);

  const Tensor values =
      Tensor::full(field.batch_shape(std::ssize(indices), length), field.padding, field.decoded);
  const Decoder decode = decoder_of(field.stored, field.decoded);
  const std::int64_t item = field.shape.count_per_item();
  const std::size_t step = static_cast<std::size_t>(length * item) * size_of(field.decoded);
  auto* to = static_cast<std::byte*>(values.raw());
  for (std::size_t at = 0; at < examples.size(); ++at, to += step)
    decode(examples[at].data(), to, length_of[at] * item);
  return {.name = field.name,
          .values = values,
          .lengths = lengths,
          .pad_to = field.pad_to,
          .is_target = field.is_target};
}

// --- labels ---

template <class Label>
void check_labels_as(const Dataset& dataset, const Field& field,
                     std::span<const std::int64_t> indices, const Tensor& values,
                     const Tensor& lengths) {
  const std::span<const Label> labels = values.span<Label>();
  const std::size_t each = labels.size() / indices.size();
  const auto is_left_out = [&](std::size_t at) {
    if (field.ignored_label && labels[at] == *field.ignored_label) return true;
    if (!lengths) return false;
    const std::int64_t length = lengths.data<std::int64_t>()[at / each];
    return at % each >= static_cast<std::size_t>(length * field.shape.count_per_item());
  };
  for (auto found = labels.begin(); found != labels.end(); ++found) {
    found = std::find_if(found, labels.end(),
                         [&](Label label) { return label < 0 || label >= field.classes; });
    if (found == labels.end()) return;
    const auto at = static_cast<std::size_t>(found - labels.begin());
    if (!is_left_out(at)) check_label_in(field, *found, dataset.id(indices[at / each]));
  }
}

template <class Label>
std::vector<std::int64_t> count_targets_as(const Tensor& values, std::int64_t ignored) {
  const std::span<const Label> labels = values.span<Label>();
  std::vector<std::int64_t> counted(static_cast<std::size_t>(values.shape()[0]));
  if (counted.empty()) return counted;
  const std::size_t each = labels.size() / counted.size();
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const auto own = labels.subspan(i * each, each);
    counted[i] = std::ssize(own) - std::ranges::count(own, static_cast<Label>(ignored));
  }
  return counted;
}

}  // namespace

Decoder decoder_of(DType stored, DType decoded) {
  if (stored == decoded) {
    switch (size_of(stored)) {
      case 1:
        return copy<1>;
      case 2:
        return copy<2>;
      case 4:
        return copy<4>;
      default:
        return copy<8>;
    }
  }
  if (stored == DType::uint8 && decoded == DType::float32)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      decode_pixels(reinterpret_cast<const std::uint8_t*>(values),
                    reinterpret_cast<float*>(destination), count);
    };
  if (stored == DType::uint8 && decoded == DType::int32)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      convert<std::uint8_t, std::int32_t>(values, destination, count,
                                          [](auto value) { return std::int32_t{value}; });
    };
  if (stored == DType::uint8 && decoded == DType::int64)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      convert<std::uint8_t, std::int64_t>(values, destination, count,
                                          [](auto value) { return std::int64_t{value}; });
    };
  if (stored == DType::float64 && decoded == DType::float32)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      convert<double, float>(values, destination, count,
                             [](double value) { return static_cast<float>(value); });
    };
  TASUKI_CHECK(stored == DType::float16 && decoded == DType::float32,
               "values stored as {} cannot be decoded to {}", name_of(stored), name_of(decoded));
  return [](const std::byte* values, std::byte* destination, std::int64_t count) {
    convert<std::uint16_t, float>(values, destination, count, float_from_half);
  };
}

void rethrow_of_example(const Error& error, std::int64_t id) {
  const bool is_about_data = error.kind() == ErrorKind::data ||
                             error.kind() == ErrorKind::missing || error.kind() == ErrorKind::io;
  if (!is_about_data) throw;
  throw Error(error.kind(), fmt::format("example {}: {}", id, error.what()), error.scope());
}

std::vector<std::int64_t> count_targets(const Field& field, const Tensor& values) {
  return values.dtype() == DType::int64
             ? count_targets_as<std::int64_t>(values, field.ignored_label.value())
             : count_targets_as<std::int32_t>(values, field.ignored_label.value());
}

void check_label_in(const Field& field, std::int64_t label, std::int64_t id) {
  if (field.classes == 0 || (label >= 0 && label < field.classes) || label == field.ignored_label)
    return;
  fail(ErrorKind::data,
       "example {} has label {}, expected 0 .. {}; leave examples that should not count out of "
       "the data set, or name their label (Field::ignored_label)",
       id, label, field.classes - 1);
}

void check_labels(const Dataset& dataset, std::size_t number, std::span<const std::int64_t> indices,
                  const Tensor& values, const Tensor& lengths) {
  const Field& field = dataset.header().fields[number];
  if (field.classes == 0 || values.count() == 0) return;
  if (values.dtype() == DType::int64)
    check_labels_as<std::int64_t>(dataset, field, indices, values, lengths);
  else
    check_labels_as<std::int32_t>(dataset, field, indices, values, lengths);
}

BatchField read_field(const Dataset& dataset, std::size_t number,
                      std::span<const std::int64_t> indices, std::int64_t epoch) {
  check_indices(dataset, indices);
  const Field& field = dataset.header().fields[number];
  BatchField read = field.is_ragged
                        ? read_ragged(dataset, number, indices)
                        : BatchField{.name = field.name,
                                     .values = read_even(dataset, number, indices, epoch),
                                     .is_target = field.is_target};
  report_progress();
  check_labels(dataset, number, indices, read.values, read.lengths);
  return read;
}

Batch read_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                 std::int64_t epoch) {
  std::vector<BatchField> fields;
  for (std::size_t number = 0; number < dataset.header().fields.size(); ++number)
    fields.push_back(read_field(dataset, number, indices, epoch));
  std::vector<std::int64_t> ids;
  ids.reserve(indices.size());
  for (const std::int64_t index : indices) ids.push_back(dataset.id(index));
  Batch batch(std::move(fields), std::move(ids), epoch);
  for (std::size_t number = 0; number < batch.fields().size(); ++number)
    if (const Field& field = dataset.header().fields[number]; field.ignored_label)
      batch.set_counted(count_targets(field, batch.fields()[number].values));
  return batch;
}

}  // namespace tasuki
