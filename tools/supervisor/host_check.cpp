#include "tools/supervisor/host_check.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/text_parts.hpp"
#include "tools/processes/children.hpp"
#include "tools/supervisor/program.hpp"

namespace tasuki::supervisor {
namespace {

constexpr std::chrono::milliseconds look{20};

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
      one.is_good = processes::exit_code_of(status) == 0;
      one.process = 0;
    } else {
      are_all_done = false;
    }
  }
  return are_all_done;
}

}  // namespace

std::vector<std::string> remote_shell(const McaParameters& parameters) {
  std::vector<std::string> chosen = {"ssh"};
  // "ssh : rsh" offers several; mpirun takes the first that exists.
  const std::string offers =
      parameters.find({"plm_rsh_agent", "orte_rsh_agent", "pls_rsh_agent"}).value_or("");
  for (const std::string& offer : text_parts(offers, ':')) {
    // Like mpirun, which knows no quotes there.
    const std::vector<std::string> words = text_words(offer);
    if (words.empty() ||
        (words[0].find('/') == std::string::npos && find_in_path(words[0]).empty()))
      continue;
    chosen = words;
    break;
  }
  // The first of several values counts for ssh.
  if (std::filesystem::path(chosen[0]).filename() == "ssh")
    chosen.insert(chosen.end(), ssh_without_questions.begin(), ssh_without_questions.end());
  const auto arguments = text_words(parameters.find({"plm_rsh_args"}).value_or(""));
  chosen.insert(chosen.end(), arguments.begin(), arguments.end());
  return chosen;
}

std::optional<std::vector<Host>> answering(const std::vector<Host>& hosts,
                                           const std::vector<std::string>& remote_shell,
                                           std::chrono::seconds longest, const Signals& signals,
                                           int& signal) {
  std::vector<Question> questions;
  const int nothing = processes::open_nothing();
  for (const Host& host : hosts) {
    questions.push_back({&host, 0, host.is_this_machine()});
    if (questions.back().is_good) continue;
    std::vector<std::string> words = remote_shell;
    words.insert(words.end(), {host.address, "true"});
    questions.back().process =
        processes::start_process(words, {nothing, nothing, nothing}, SIGKILL);
  }
  close(nothing);
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
