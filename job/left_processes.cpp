#include "job/left_processes.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>

#include "core/printable.hpp"
#include "core/process_state.hpp"
#include "job/launcher_process.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Processes = std::vector<pid_t>;

constexpr std::chrono::milliseconds look{50};
constexpr std::chrono::seconds own_end{1};  // that a process has which is about to end
constexpr std::chrono::seconds after_term{2};

bool has(const Processes& processes, pid_t one) {
  return std::ranges::find(processes, one) != processes.end();
}

Processes ancestors() {
  Processes found;
  for (pid_t process = getppid(); process > 1;) {
    found.push_back(process);
    const auto state = process_state(process);
    process = state ? state->parent : 0;
  }
  return found;
}

// Whether the process can write to this open file by one of its descriptors.
bool holds(pid_t process, const struct stat& file) {
  std::error_code gone;
  for (fs::directory_iterator each(fmt::format("/proc/{}/fd", process), gone), end;
       !gone && each != end; each.increment(gone)) {
    struct stat held {};
    if (stat(each->path().c_str(), &held) != 0 || held.st_dev != file.st_dev ||
        held.st_ino != file.st_ino)
      continue;
    // Links in /proc/PID/fd have the mode in which the file is open.
    struct stat link {};
    if (lstat(each->path().c_str(), &link) == 0 && (link.st_mode & S_IWUSR) != 0) return true;
  }
  return false;
}

// A pipe or a terminal, which has a reader that waits for its end.
std::vector<struct stat> awaited_outputs() {
  std::vector<struct stat> files;
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat file {};
    if (fstat(descriptor, &file) == 0 && (S_ISFIFO(file.st_mode) || isatty(descriptor) != 0))
      files.push_back(file);
  }
  return files;
}

// A process that no launcher of Open MPI has started has a daemon of its own, which ends after it.
bool is_daemon(pid_t process) {
  const auto state = process_state(process);
  return state && is_daemon_name(state->name.data());
}

// "4711 (sleep 1000), 4712 (tee)"
std::string text_of(const Processes& processes) {
  constexpr std::size_t longest_command = 60;
  std::string text;
  for (const pid_t process : processes) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", process));
    std::string command{std::istreambuf_iterator<char>(file), {}};
    while (command.ends_with('\0')) command.pop_back();
    std::ranges::replace(command, '\0', ' ');
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", process,
                        printable(command, longest_command));
  }
  return text;
}

bool are_gone_by(Clock::time_point end) {
  while (!holders_of_output().empty()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(look);
  }
  return true;
}

void end_all(int signal) {
  for (const pid_t process : holders_of_output()) kill(process, signal);
}

}  // namespace

std::vector<pid_t> holders_of_output() {
  const std::vector<struct stat> outputs = awaited_outputs();
  if (outputs.empty()) return {};
  Processes found = descendants(getpid());
  // Those that have lost their parents are nowhere below the launcher.
  if (const pid_t launcher = launcher_process(); launcher != 0) {
    const Processes of_job = descendants(launcher), above = ancestors();
    for (const pid_t process : descendants(1))
      if (!has(of_job, process) && !has(above, process) && !has(found, process))
        found.push_back(process);
  }
  std::erase_if(found, [&](pid_t process) {
    return is_daemon(process) || std::ranges::none_of(outputs, [&](const struct stat& file) {
             return holds(process, file);
           });
  });
  return found;
}

void end_holders_of_output(const std::string& who, std::chrono::seconds longest) {
  if (are_gone_by(Clock::now() + own_end)) return;
  const std::string line = fmt::format(
      "warning: {}: the program has ended, but processes that it started still hold its output, so "
      "that the launcher waits for them: {}; they are ended in {} s (TASUKI_END_SECONDS)\n",
      who, text_of(holders_of_output()), longest.count());
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
  if (are_gone_by(Clock::now() + longest)) return;
  end_all(SIGTERM);
  if (!are_gone_by(Clock::now() + after_term)) end_all(SIGKILL);
}

}  // namespace tasuki
