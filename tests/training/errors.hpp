// What an error that a test expects says.
#pragma once

#include <string>
#include <utility>

#include "tasuki/core/error.hpp"

namespace tasuki::testing {

// Message of the Error that `action` throws; "(nothing thrown)" without one.
template <class Action>
std::string error_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing thrown)";
}

}  // namespace tasuki::testing
