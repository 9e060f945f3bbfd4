// Labels of data files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace tasuki {

// An error of kind data when a label lies outside 0 .. classes - 1; `first` is the number of the
// first of these examples in the file.
void check_labels(std::span<const std::int32_t> labels, std::int64_t classes, std::int64_t first,
                  const std::filesystem::path& path);

}  // namespace tasuki
