#include "tools/processes/gnuplot.hpp"

#include "core/error.hpp"
#include "tools/processes/error_line.hpp"
#include "tools/processes/memory_file.hpp"
#include "tools/processes/run_to_end.hpp"

namespace tasuki::processes {

std::string quoted_for_gnuplot(std::string_view text) {
  std::string made = "'";
  for (const char c : text) {
    if (c == '\'') made += '\'';
    made += c;
  }
  return made + '\'';
}

void run_gnuplot(std::string_view script) {
  constexpr double timeout = 60;  // seconds
  constexpr int not_found = 127;
  const MemoryFile input(script), output;
  const EndedProcess drawn =
      run_to_end({"gnuplot", input.path()}, {output.descriptor(), output.descriptor()}, timeout);
  if (drawn.exit_code == not_found)
    fail(ErrorKind::unavailable,
         "gnuplot is not installed; install Debian's package gnuplot-nox, or draw with --text");
  if (drawn.how == HowEnded::timed_out)
    fail(ErrorKind::io, "gnuplot did not end within {} seconds", timeout);
  if (drawn.exit_code != 0)
    fail(ErrorKind::io, "gnuplot could not draw: {}", last_words(output.text()));
}

}  // namespace tasuki::processes
