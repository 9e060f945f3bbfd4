// Errors that tests expect.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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

// `action` throws an Error of this kind, one line that contains all of these words.
template <class Action>
void expect_error(ErrorKind kind, const std::vector<std::string>& words, Action&& action) {
  try {
    std::forward<Action>(action)();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), kind) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : words)
      EXPECT_NE(message.find(word), std::string::npos) << "no '" << word << "' in: " << message;
  }
}

}  // namespace tasuki::testing
