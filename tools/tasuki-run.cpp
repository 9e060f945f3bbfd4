// Starts a training program with mpirun, and restarts it when it fails.
//
//   tasuki-run -np 4 train_mnist --epoch 20

#include <unistd.h>

#include <signal.h>
#include <cstdlib>
#include <random>

#include "core/job_process.hpp"
#include "core/printable.hpp"
#include "program/report/about.hpp"
#include "run_tool.hpp"
#include "tools/processes/children.hpp"
#include "tools/supervisor/launcher_files.hpp"
#include "tools/supervisor/output_stream.hpp"
#include "tools/supervisor/supervisor.hpp"

namespace tasuki::supervisor {
namespace {

// A unique text for this run.
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
  const Signals signals;
  processes::adopt_orphans();
  std::optional<int> stop;
  CheckedProgram checked = check_program(line.settings.program, [&] {
    if (!stop) stop = signals.wait_for_stop({});
    return stop.has_value();
  });
  if (stop) return 128 + *stop;
  if (checked.answered) {
    standard_output().write(checked.answered->out);
    standard_output().drain(signals);
    error_output().write(checked.answered->err);
    error_output().drain(signals);
    return checked.answered->exit_code;
  }
  const std::string mark = make_mark();
  setenv(program::supervisor_variable, mark.c_str(), 1);
  setenv(job_age_variable, "0", 1);  // each start sets its own
  Surroundings around = look_around(line.settings.launcher);
  const bool only_print = line.settings.print_command;
  Supervisor supervisor(std::move(line.settings), std::move(checked.program), std::move(around),
                        mark, signals);
  if (only_print) {
    fmt::print("{}\n", printable(supervisor.first_command()));
    return 0;
  }
  remove_marked_files();
  const int exit_code = supervisor.run();
  standard_output().drain(signals);
  error_output().drain(signals);
  return exit_code;
}

}  // namespace
}  // namespace tasuki::supervisor

int main(int argc, char** argv) {
  return tasuki::run_tool([&] {
    return tasuki::supervisor::run({argv + std::min(argc, 1), argv + argc});
  });
}
