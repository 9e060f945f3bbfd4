// Outcome: the success or failure of some work, which can be sent to other ranks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.hpp"

namespace tasuki {

struct Outcome {
  int exit_code = 0;        // of the error; 0: success
  std::string message;      // of the error; after success, any text from the work
  std::error_code cause{};  // of a SystemError
};

// Calls `work` and turns an exception into an outcome. An Error keeps its kind; std::bad_alloc gets
// kind unavailable, other exceptions kind internal.
Outcome outcome_of(const std::function<void()>& work);

std::string encode(const Outcome& outcome);
Outcome decode(std::string_view text);

// Throws the error if the work failed.
void throw_if_failed(const Outcome& outcome, ErrorScope scope);

}  // namespace tasuki
