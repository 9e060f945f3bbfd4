// Starts a training program with mpirun, and again when it fails.
//
//   tasuki-run -np 4 train_mnist --epoch 20

#include <unistd.h>

#include <signal.h>
#include <cstdlib>
#include <random>

#include "processes/run_to_end.hpp"
#include "run_tool.hpp"
#include "supervisor/supervisor.hpp"
#include "tasuki/program/report/about.hpp"

namespace tasuki::supervisor {
namespace {

// A text that no other run has.
std::string make_mark() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

int run(const std::vector<std::string>& arguments) {
  CommandLine line = parse_command_line(arguments);
  if (line.request != program::Options::Request::run) {
    fmt::print("{}", line.text);
    return 0;
  }
  processes::take_over_signals();
  CheckedProgram checked = check_program(line.settings.program);
  if (const int signal = processes::interrupting_signal()) return 128 + signal;
  if (checked.answered) {
    fmt::print("{}", checked.answered->out);
    std::fflush(stdout);
    fmt::print(stderr, "{}", checked.answered->err);
    return checked.answered->exit_code;
  }
  const std::string mark = make_mark();
  setenv(program::supervisor_variable, mark.c_str(), 1);
  Surroundings around = look_around(line.settings.launcher);
  const bool only_print = line.settings.print_command;
  Supervisor supervisor(std::move(line.settings), std::move(checked.program), std::move(around),
                        mark);
  if (only_print) {
    fmt::print("{}\n", supervisor.first_command());
    return 0;
  }
  return supervisor.run();
}

}  // namespace
}  // namespace tasuki::supervisor

int main(int argc, char** argv) {
  return tasuki::run_tool([&] {
    return tasuki::supervisor::run({argv + std::min(argc, 1), argv + argc});
  });
}
