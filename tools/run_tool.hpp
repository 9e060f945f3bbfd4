// run_tool: the main function of a program without ranks.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace tasuki {

// Opens /dev/null in place of closed standard streams, so that no other file gets their numbers.
inline void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return;
}

inline void print_error(const std::exception& error) {
  // fmt::print throws if nobody reads; this does not.
  std::fputs(fmt::format("error: {}\n", message_line(error.what())).c_str(), stderr);
}

// Returns tool()'s result, the program's exit code. An exception becomes one line on standard error
// and the error's exit code.
template <class Tool>
int run_tool(const Tool& tool) {
  open_standard_streams();
  try {
    return tool();
  } catch (const Error& error) {
    print_error(error);
    return error.exit_code();
  } catch (const std::exception& error) {
    print_error(error);
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace tasuki
