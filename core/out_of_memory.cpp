#include "tasuki/core/out_of_memory.hpp"

#include <utility>

namespace tasuki {
namespace {

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

OutOfMemory::OutOfMemory(std::string where, std::size_t asked, std::size_t free,
                         const std::string& advice)
    : Error(ErrorKind::unavailable,
            fmt::format("out of memory on {}: {} more were asked for, {} were free; {}", where,
                        megabytes(asked), megabytes(free), advice)),
      where_(std::move(where)),
      asked_(asked),
      free_(free) {}

}  // namespace tasuki
