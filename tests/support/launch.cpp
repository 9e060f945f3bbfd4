#include "launch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "core/process_state.hpp"
#include "patience.hpp"

namespace tasuki::testing {
namespace {

using Pipe = std::array<int, 2>;  // read end, write end

Pipe make_pipe() {
  Pipe ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  return ends;
}

[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::map<std::string, std::string>& changes, const Pipe& out,
                         const Pipe& err) {
  setpgid(0, 0);
  signal(SIGINT, SIG_DFL);  // tests that run in the background of a script ignore it
  dup2(out[1], STDOUT_FILENO);
  dup2(err[1], STDERR_FILENO);
  for (const auto& [name, value] : changes) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// The descendants as well, because mpirun and ranks are in groups of their own.
void kill_all(pid_t program) {
  const std::vector<pid_t> others = descendants(program);
  kill(-program, SIGKILL);
  for (const pid_t each : others) kill(each, SIGKILL);
}

// Appends what is there to read; false at the end of the stream.
bool drain(int descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t n = read(descriptor, buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

Finished run_program(const std::vector<std::string>& words, double limit_seconds,
                     const std::map<std::string, std::string>& changes,
                     const std::function<void(pid_t program)>& meanwhile) {
  const Pipe out = make_pipe(), err = make_pipe();
  const double start = shared_clock();
  double end = 0;  // of reading, after it was killed
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) become(words, changes, out, err);
  close(out[1]);
  close(err[1]);

  Finished finished;
  std::array<pollfd, 2> streams = {pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (finished.timed_out) {
      if (shared_clock() - start > end) break;
    } else if (shared_clock() - start > limit_seconds * patience()) {
      finished.timed_out = true;
      end = shared_clock() - start + 10;
      kill_all(child);
    } else if (meanwhile) {
      meanwhile(child);
    }
    if (poll(streams.data(), streams.size(), 50) <= 0) continue;
    if (streams[0].revents && !drain(out[0], finished.out)) streams[0].fd = -1;
    if (streams[1].revents && !drain(err[0], finished.err)) streams[1].fd = -1;
  }
  close(out[0]);
  close(err[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  finished.seconds = shared_clock() - start;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

bool has_hydra() {
#ifdef OPEN_MPI
  return false;
#else
  return true;
#endif
}

std::string launcher_name() {
  return has_hydra() ? "mpiexec" : "mpirun";
}

std::string rank_variable() {
  return has_hydra() ? "PMI_RANK" : "OMPI_COMM_WORLD_RANK";
}

std::vector<std::string> mpirun(int np, const std::vector<std::string>& program,
                                const std::vector<std::string>& options) {
  std::vector<std::string> words = {"env", "OMPI_ALLOW_RUN_AS_ROOT=1",
                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "I_MPI_PIN=0",
                                    "I_MPI_THREAD_YIELD=2"};
  if (has_hydra()) {
    const char* const chosen = std::getenv("TASUKI_MPIEXEC");
    words.insert(words.end(),
                 {chosen != nullptr ? chosen : "mpiexec.hydra", "-np", std::to_string(np)});
  } else {
    words.insert(words.end(),
                 {"mpirun", "-np", std::to_string(np), "--oversubscribe", "--bind-to", "none"});
  }
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

double shared_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tasuki::testing
