// BadIndex: thrown for a label that is not a class, or an id that is not a row.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"

namespace tasuki {

// An error of kind data. Functions know only positions in their batch; callers that have the Batch
// add which example of the data set it is (training/named_examples.hpp).
class BadIndex : public Error {
 public:
  // `what`: "label" or "id", whose value must be in 0 .. count - 1. `message`: says where it is.
  BadIndex(std::string what, std::int64_t value, std::int64_t count, const std::string& message)
      : Error(ErrorKind::data, message), what_(std::move(what)), value_(value), count_(count) {}

  const std::string& what_is_bad() const { return what_; }
  std::int64_t value() const { return value_; }
  std::int64_t count() const { return count_; }

 private:
  std::string what_;
  std::int64_t value_, count_;
};

// For labels, which must be 0 .. classes - 1 or `ignored`.
inline BadIndex bad_label(std::int64_t label, std::int64_t position, std::int64_t classes,
                          std::int64_t ignored) {
  return {"label", label, classes,
          fmt::format("label {} at position {} of the batch is neither in 0 .. {} nor {}", label,
                      position, classes - 1, ignored)};
}

}  // namespace tasuki
