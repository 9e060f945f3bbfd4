#include "errors.hpp"

#include <gtest/gtest.h>

namespace tasuki::testing {

std::optional<Error> caught(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::string error_of(const std::function<void()>& action) {
  const auto error = caught(action);
  return error ? error->what() : "(nothing thrown)";
}

std::string error_everywhere_of(ErrorKind kind, const std::function<void()>& action) {
  const auto error = caught(action);
  if (!error) return "";
  EXPECT_EQ(error->kind(), kind);
  EXPECT_EQ(error->scope(), ErrorScope::every_rank);
  return error->what();
}

void expect_error(ErrorKind kind, const std::vector<std::string>& words,
                  const std::function<void()>& action) {
  const auto error = caught(action);
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
