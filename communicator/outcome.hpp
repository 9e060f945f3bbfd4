// Outcome: how some work ended, as a message to other ranks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.hpp"

namespace tasuki {

struct Outcome {
  int exit_code = 0;        // of the error; 0: success
  std::string message;      // of the error; after a success anything that goes with it
  std::error_code cause{};  // of a SystemError
};

// Calls `work`. What it throws keeps its kind; std::bad_alloc is of kind unavailable, and other
// exceptions that are no Error are of kind internal.
Outcome outcome_of(const std::function<void()>& work);

std::string encode(const Outcome& outcome);
Outcome decode(std::string_view text);

// Throws the error, if it is one.
void throw_if_failed(const Outcome& outcome, ErrorScope scope);

}  // namespace tasuki
