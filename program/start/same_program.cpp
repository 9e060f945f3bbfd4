#include "program/start/same_program.hpp"

#include <fmt/format.h>

#include "communicator/agreement.hpp"
#include "core/version.hpp"

namespace tasuki::program {

void check_same_program(Communicator& communicator, const std::vector<std::string>& arguments) {
  std::vector<std::string> lines = {fmt::format("Tasuki {}", version())};
  for (const std::string& build : loaded_builds()) lines.push_back("program " + build);
  for (const std::string& argument : arguments) lines.push_back("argument " + argument);
  check_agreement(communicator, lines,
                  "all ranks must be started with the same program and the same arguments");
}

}  // namespace tasuki::program
