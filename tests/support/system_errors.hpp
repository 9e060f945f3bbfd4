// Errors of the system that tests expect.
#pragma once

#include <gtest/gtest.h>

#include <system_error>
#include <utility>

#include "core/system_error.hpp"

namespace tasuki::testing {

// The SystemError that `action` must throw, as it is (caught() keeps an Error alone).
template <class Action>
SystemError system_error_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const SystemError& error) {
    return error;
  }
  ADD_FAILURE() << "no error of the system was thrown";
  return {ErrorKind::internal, std::error_code(), ""};
}

}  // namespace tasuki::testing
