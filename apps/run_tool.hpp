// run_tool: what the main function of a program without ranks consists of.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "tasuki/core/error.hpp"

namespace tasuki {

// Returns what tool() returns, the program's exit code. An exception becomes one line on standard
// error and the error's exit code.
template <class Tool>
int run_tool(const Tool& tool) {
  try {
    return tool();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace tasuki
