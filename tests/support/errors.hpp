// Errors that tests expect.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace tasuki::testing {

// The Error that `action` throws, if it throws one.
template <class Action>
std::optional<Error> caught(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// Its message; "(nothing thrown)" without one.
template <class Action>
std::string error_of(Action&& action) {
  const auto error = caught(std::forward<Action>(action));
  return error ? error->what() : "(nothing thrown)";
}

// The message of an Error of this kind that every rank meets (fail_everywhere); empty if `action`
// throws none.
template <class Action>
std::string error_everywhere_of(ErrorKind kind, Action&& action) {
  const auto error = caught(std::forward<Action>(action));
  if (!error) return "";
  EXPECT_EQ(error->kind(), kind);
  EXPECT_EQ(error->scope(), ErrorScope::every_rank);
  return error->what();
}

// `action` throws an Error of this kind, one line that contains all of these words.
template <class Action>
void expect_error(ErrorKind kind, const std::vector<std::string>& words, Action&& action) {
  const auto error = caught(std::forward<Action>(action));
  if (!error) {
    ADD_FAILURE() << "no error was thrown";
    return;
  }
  const std::string message = error->what();
  EXPECT_EQ(error->kind(), kind) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "no '" << word << "' in: " << message;
}

}  // namespace tasuki::testing
