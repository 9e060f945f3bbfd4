// Errors that tests expect.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace tasuki::testing {

// The Error that `action` throws, if it throws one.
std::optional<Error> caught(const std::function<void()>& action);

// Its message; "(nothing thrown)" without one.
std::string error_of(const std::function<void()>& action);

// The message of an Error of this kind that every rank meets (fail_everywhere); empty if `action`
// throws none.
std::string error_everywhere_of(ErrorKind kind, const std::function<void()>& action);

// `action` throws an Error of this kind, one line that contains all of these words.
void expect_error(ErrorKind kind, const std::vector<std::string>& words,
                  const std::function<void()>& action);

}  // namespace tasuki::testing
