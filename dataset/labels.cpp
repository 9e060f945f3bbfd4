#include "tasuki/dataset/labels.hpp"

#include "tasuki/core/error.hpp"

namespace tasuki {

void check_labels(std::span<const std::int32_t> labels, std::int64_t classes, std::int64_t first,
                  const std::filesystem::path& path) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      fail(ErrorKind::data, "{}: expected labels from 0 to {}, found {} at example {}",
           path.string(), classes - 1, labels[i], first + static_cast<std::int64_t>(i));
}

}  // namespace tasuki
