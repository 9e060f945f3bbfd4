// Tables of numbers in text files: a header line with the names of the columns, then one example in
// each line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dataset/in_memory.hpp"

namespace tasuki {

struct CsvOptions {
  // Columns of field "x", in this order; empty: all columns other than targets.
  std::vector<std::string> x = {};
  // Columns of the targets, field "t"; empty: there is no such field.
  std::vector<std::string> t = {};
  // 0: targets are numbers, and t is N x (columns). Otherwise there is one column of labels from 0
  // to classes - 1, and t is N int32.
  std::int64_t classes = 0;
  char separator = ',';
};

// x is N x (columns) float32. Counts the lines when it opens the file, and reads them one after the
// other; blank lines are skipped. Errors of kind data, with file, line and column: a missing header
// line, a named column that is missing or occurs twice, a line with another number of values, and a
// value that is not a finite number. Values may stand in double quotes; the file may be
// gzip-compressed. A column that `options` name twice is a usage error.
std::unique_ptr<DataSource> open_csv(const std::filesystem::path& path,
                                     const CsvOptions& options = {});

// The whole table in memory: csv_dataset("houses.csv", {.t = {"price"}}).
std::shared_ptr<InMemoryDataset> csv_dataset(const std::filesystem::path& path,
                                             const CsvOptions& options = {});

}  // namespace tasuki
