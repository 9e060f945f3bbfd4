// Labels and class names from separate files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tasuki::predict {

// One label for each of `examples` examples in `place`: an IDX file of labels, or text with a
// number or the name of a class on each line. Another number of labels, or a label outside the
// classes, is an error of kind data.
std::vector<std::int32_t> read_labels(const std::filesystem::path& file, std::int64_t classes,
                                      const std::vector<std::string>& class_names,
                                      std::int64_t examples, const std::string& place);

// The name of each class, one per line. Another number of names is an error of kind data.
std::vector<std::string> read_class_names(const std::filesystem::path& file, std::int64_t classes);

}  // namespace tasuki::predict
