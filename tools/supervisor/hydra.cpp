#include "tools/supervisor/hydra.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/text_parts.hpp"
#include "tools/supervisor/host_check.hpp"

namespace tasuki::supervisor {
namespace {

using Words = std::vector<std::string>;

// What differs between the two.
struct Names {
  std::array<const char*, 2> flags;  // that choose the remote shell
  const char* shell;                 // the environment variable that does
  const char* arguments;             // and the one with more words for it
};

constexpr Names mpichs = {{"launcher-exec", "bootstrap-exec"},
                          "HYDRA_LAUNCHER_EXEC",
                          "HYDRA_LAUNCHER_EXTRA_ARGS"},
                intels = {{"bootstrap-exec", "launcher-exec"},
                          "I_MPI_HYDRA_BOOTSTRAP_EXEC",
                          "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"};

const Names& names_of(MpiRuntime runtime) {
  return runtime == MpiRuntime::intel_hydra ? intels : mpichs;
}

std::string in_environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string chosen_shell(const Names& names, const Words& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    for (const char* const flag : names.flags)
      if (words[i] == fmt::format("-{}", flag) || words[i] == fmt::format("--{}", flag))
        return words[i + 1];
  return in_environment(names.shell);
}

bool is_ssh(const std::string& shell) {
  return shell.empty() || std::filesystem::path(shell).filename() == "ssh";
}

bool binds_by_choice(const Words& words) {
  if (std::ranges::any_of(words, [](const auto& word) {
        return word.find("I_MPI_PIN") != std::string::npos || word.ends_with("-bind-to");
      }))
    return true;
  return std::getenv("I_MPI_PIN") != nullptr || std::getenv("I_MPI_PIN_DOMAIN") != nullptr ||
         std::getenv("I_MPI_PIN_PROCESSOR_LIST") != nullptr;
}

}  // namespace

Launch launch_with_hydra(const SupervisorSettings& settings, const Surroundings& around,
                         const Placement& placement) {
  const Words& chosen = settings.launcher_words;
  const Names& names = names_of(around.runtime);
  Launch launch;
  launch.passes_output = true;
  if (around.runtime == MpiRuntime::intel_hydra && !has_one_core_each(around, placement) &&
      !binds_by_choice(chosen))
    launch.environment.emplace_back("I_MPI_PIN", "0");
  Words& words = launch.words;
  words.push_back(around.mpirun);
  if (placement.np) words.insert(words.end(), {"-np", fmt::format("{}", *placement.np)});
  if (!placement.hostfile.empty()) {
    // Intel's -f ignores slots, and its -machine gives hosts without slots one each.
    const bool is_intels = around.runtime == MpiRuntime::intel_hydra;
    const char* const flag = is_intels && placement.slots ? "-machine" : "-f";
    words.insert(words.end(), {flag, placement.hostfile});
    launch.has_other_hosts = !placement.is_here;
    if (!placement.is_here && is_ssh(chosen_shell(names, chosen)) &&
        in_environment(names.arguments).empty())
      launch.environment.emplace_back(
          names.arguments,
          "-o ConnectTimeout=10 -o ServerAliveInterval=3 -o ServerAliveCountMax=3");
  }
  words.insert(words.end(), chosen.begin(), chosen.end());
  return launch;
}

std::string hydra_hostfile(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts)
    if (!host.slots)
      text += host.address + '\n';
    else if (*host.slots > 0)
      text += fmt::format("{}:{}\n", host.address, *host.slots);
  return text;
}

Words hydra_remote_shell(MpiRuntime runtime, const Words& launcher_words) {
  const Names& names = names_of(runtime);
  const std::string shell = chosen_shell(names, launcher_words);
  Words words = {shell.empty() ? "ssh" : shell};
  // The first of several values counts for ssh.
  if (is_ssh(shell))
    words.insert(words.end(), ssh_without_questions.begin(), ssh_without_questions.end());
  const Words arguments = text_words(in_environment(names.arguments));
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace tasuki::supervisor
