// The arrays of make_arrays.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "dataset/dataset.hpp"
#include "dataset/files/input_file.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {

inline std::filesystem::path array_file(const std::string& name) {
  return std::filesystem::path(ARRAYS) / name;
}

// What is in a file, unpacked if it is gzip's.
inline std::string contents_of(const std::filesystem::path& path) {
  InputFile file(path);
  std::string text(1 << 20, '\0');
  text.resize(file.read_some(reinterpret_cast<std::byte*>(text.data()), text.size()));
  return text;
}

inline std::vector<std::int64_t> all_of(const Dataset& data) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(data.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// The values of a field of these examples in a batch.
inline std::vector<double> values_of(const Dataset& data, const std::string& field,
                                     const std::vector<std::int64_t>& examples) {
  const Tensor values =
      read_field(data, data.header().index_of(field), examples).values.to(DType::float64);
  return {values.data<double>(), values.data<double>() + values.count()};
}

// Values 7 * row + column of these rows, times `factor`.
inline std::vector<double> expected_rows(const std::vector<std::int64_t>& rows,
                                         std::int64_t columns, double factor = 1) {
  std::vector<double> values;
  for (const std::int64_t row : rows)
    for (std::int64_t column = 0; column < columns; ++column)
      values.push_back(factor * static_cast<double>(7 * row + column));
  return values;
}

// Of an array of make_arrays.py's types, such as "big_i2", in a batch.
inline std::vector<double> expected_of_type(const std::string& name) {
  const char kind = name[name.find('_') + 1];
  std::vector<double> values = expected_rows({0, 1, 2, 3}, 3,
                                             kind == 'i'   ? -1
                                             : kind == 'f' ? -0.5
                                                           : 1);
  for (double& value : values) {
    if (kind == 'b') value = static_cast<std::int64_t>(value) % 2;
    if (name == "little_u1") value = static_cast<double>(static_cast<float>(value) / 255.0F);
  }
  return values;
}

inline const std::vector<std::string> array_types = {
    "little_b1", "little_u1", "little_u2", "big_u2",    "little_u4", "big_u4",    "little_u8",
    "big_u8",    "little_i1", "little_i2", "big_i2",    "little_i4", "big_i4",    "little_i8",
    "big_i8",    "little_f2", "big_f2",    "little_f4", "big_f4",    "little_f8", "big_f8"};

}  // namespace tasuki::testing
