// Memory that was asked for and is not there, as an error with its numbers: who catches it can say
// what would fit.
#pragma once

#include <cstddef>
#include <string>

#include "tasuki/core/error.hpp"

namespace tasuki {

class OutOfMemory : public Error {
 public:
  // `where` is what ran out ("cpu", "cuda:0"); bytes that were asked for and that were free then.
  // `advice` ends the line.
  OutOfMemory(std::string where, std::size_t asked, std::size_t free,
              const std::string& advice = "take a smaller batch or model");

  const std::string& where() const noexcept { return where_; }
  std::size_t asked() const noexcept { return asked_; }
  std::size_t free() const noexcept { return free_; }

 private:
  std::string where_;
  std::size_t asked_, free_;
};

}  // namespace tasuki
