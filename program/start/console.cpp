#include "tasuki/program/start/console.hpp"

#include <cstdio>

namespace tasuki::program {

void print_on_root(const Communicator& communicator, const std::string& text) {
  if (communicator.rank() != 0) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace tasuki::program
