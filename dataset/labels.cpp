#include "tasuki/dataset/labels.hpp"

#include "tasuki/core/error.hpp"

namespace tasuki {

void check_label(std::int32_t label, std::int64_t classes, std::int64_t example,
                 const std::filesystem::path& path) {
  if (label < 0 || label >= classes)
    fail(ErrorKind::data, "{}: expected labels from 0 to {}, found {} at example {}", path.string(),
         classes - 1, label, example);
}

}  // namespace tasuki
