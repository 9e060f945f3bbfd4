#include "supervisor/host_check.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "supervisor/program.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki::supervisor {
namespace {

constexpr const char* agent_parameter = "plm_rsh_agent";
constexpr std::chrono::milliseconds look{20};

std::string configured_agent(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 2 < words.size(); ++i)
    if ((words[i] == "--mca" || words[i] == "-mca") && words[i + 1] == agent_parameter)
      return words[i + 2];
  const char* const variable = std::getenv("OMPI_MCA_plm_rsh_agent");
  return variable == nullptr ? "" : variable;
}

pid_t start_quietly(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail(ErrorKind::io, "fork: {}", std::strerror(errno));
  setpgid(child, 0);  // in both, as either may come first
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  forget_signals();
  const int nothing = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

struct Question {
  const Host* host;
  pid_t process;  // 0: answered
  bool is_good = false;
};

// Whether all have ended.
bool collect(std::vector<Question>& questions) {
  bool are_all_done = true;
  for (Question& one : questions) {
    if (one.process == 0) continue;
    int status = 0;
    if (waitpid(one.process, &status, WNOHANG) == one.process) {
      one.is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      one.process = 0;
    } else {
      are_all_done = false;
    }
  }
  return are_all_done;
}

}  // namespace

std::vector<std::string> remote_shell(const std::vector<std::string>& launcher_words) {
  std::vector<std::string> chosen = {"ssh"};
  // "ssh : rsh" offers several, of which mpirun takes the first that is there.
  std::istringstream offers(configured_agent(launcher_words));
  for (std::string offer; std::getline(offers, offer, ':');) {
    std::istringstream text(offer);
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    if (words.empty() ||
        (words[0].find('/') == std::string::npos && find_in_path(words[0]).empty()))
      continue;
    chosen = words;
    break;
  }
  if (std::filesystem::path(chosen[0]).filename() == "ssh")
    chosen.insert(chosen.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=5"});
  return chosen;
}

std::optional<std::vector<Host>> answering(const std::vector<Host>& hosts,
                                           const std::vector<std::string>& remote_shell,
                                           std::chrono::seconds longest, const Signals& signals,
                                           int& signal) {
  std::vector<Question> questions;
  for (const Host& host : hosts) {
    questions.push_back({&host, 0, host.is_this_machine()});
    if (questions.back().is_good) continue;
    std::vector<std::string> words = remote_shell;
    words.insert(words.end(), {host.address, "true"});
    questions.back().process = start_quietly(words);
  }
  const auto end = std::chrono::steady_clock::now() + longest;
  std::optional<int> stop;
  while (!collect(questions) && !stop && std::chrono::steady_clock::now() < end)
    stop = signals.wait_for_stop(look);
  for (const Question& one : questions) {
    if (one.process == 0) continue;
    kill(-one.process, SIGKILL);
    waitpid(one.process, nullptr, 0);
  }
  if (stop) {
    signal = *stop;
    return std::nullopt;
  }
  std::vector<Host> good;
  for (const Question& one : questions)
    if (one.is_good) good.push_back(*one.host);
  return good;
}

}  // namespace tasuki::supervisor
