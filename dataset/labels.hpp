// Labels of data files.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tasuki {

// An error of kind data when a label lies outside 0 .. classes - 1; `example` is its number in the
// file.
void check_label(std::int32_t label, std::int64_t classes, std::int64_t example,
                 const std::filesystem::path& path);

}  // namespace tasuki
