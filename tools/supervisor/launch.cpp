#include "tools/supervisor/launch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "communicator/mpi/open_mpi.hpp"
#include "core/error.hpp"
#include "tools/supervisor/hydra.hpp"

namespace tasuki::supervisor {
namespace {

using Words = std::vector<std::string>;

constexpr double default_kill_delay = 1;  // seconds from SIGTERM to SIGKILL, without a setting

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// mpirun takes flags with one dash or two, and --tune also in an older form.
bool has_flag(const Words& words, const Words& names) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return word == "-" + name || word == "--" + name; });
  });
}

// mpirun's flags for this placement.
Words binding(const Surroundings& around, const Placement& placement) {
  if (around.slurm && placement.hostfile.empty()) {
    const SlurmJob& job = *around.slurm;
    if (!job.tasks_per_node || job.cpus_per_task.value_or(1) < 2) return {};
    return {"--map-by", fmt::format("ppr:{}:node:PE={}", *job.tasks_per_node, *job.cpus_per_task),
            "--bind-to", "core"};
  }
  return has_one_core_each(around, placement) ? Words{} : Words{"--bind-to", "none"};
}

// The parameter that excludes this one: mpirun takes either networks to use or networks not to use.
std::string opposite_of(const std::string& name) {
  for (const auto& [end, other] : {std::pair{"_include", "_exclude"}, {"_exclude", "_include"}})
    if (name.ends_with(end)) return name.substr(0, name.size() - std::strlen(end)) + other;
  return name;
}

// The file with settings for training, without parameters that the user has set.
Words tuning(const Surroundings& around, const Words& chosen, const McaParameters& users) {
  if (around.tune.empty() || has_flag(chosen, {"tune", "am"})) return {};
  auto settings = read_mca_file(around.tune);
  if (std::erase_if(settings,
                    [&](const auto& setting) {
                      return users.find({setting.first, opposite_of(setting.first)});
                    }) == 0 &&
      around.runtime == MpiRuntime::orte)
    return {"--tune", around.tune};
  Words words;
  for (const auto& [name, value] : settings)
    append(words, words_to_set(around.runtime, name, value));
  return words;
}

// mpirun's flags if all ranks are on this machine.
Words without_network(const Surroundings& around, const Placement& placement, const Words& chosen,
                      const McaParameters& users) {
  constexpr const char* parameter = "btl";
  const bool is_here = placement.is_here && (!around.slurm || around.slurm->nodes == 1) &&
                       (!placement.hostfile.empty() || !around.may_have_other_hosts) &&
                       !has_flag(chosen, {"rankfile", "rf", "app"});
  if (!is_here || !placement.np ||
      around.shared_memory / shared_memory_of_rank < std::uintmax_t(*placement.np) ||
      users.find_given(parameter))
    return {};
  const std::string left_out = users.find_in_files(parameter).value_or("^");
  if (!left_out.starts_with('^')) return {};  // the user's choice
  return {"--mca", parameter, left_out + (left_out == "^" ? "tcp" : ",tcp")};
}

// mpirun's flags for a program that ends by SIGTERM.
Words time_to_end(const SupervisorSettings& settings, MpiRuntime runtime,
                  const McaParameters& users) {
  constexpr const char* parameter = "odls_base_sigkill_timeout";
  if (users.find({parameter})) return {};
  const double seconds =
      settings.is_stop_timeout_given ? settings.stop_timeout : default_kill_delay;
  return words_to_set(runtime, parameter, fmt::format("{:.0f}", std::ceil(seconds)));
}

Launch launch_with_mpirun(const SupervisorSettings& settings, const Surroundings& around,
                          const Placement& placement, bool is_tasukis) {
  const Words& chosen = settings.launcher_words;
  Launch launch;
  if (around.is_root)
    launch.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  Words& words = launch.words;
  words.push_back(around.mpirun);
  if (placement.np) append(words, {"-np", fmt::format("{}", *placement.np)});
  const bool has_other_hosts =
      !placement.hostfile.empty() || (around.slurm && around.slurm->nodes > 1);
  const McaParameters users(chosen, around.mca_files, around.runtime);
  append(words, tuning(around, chosen, users));
  append(words, without_network(around, placement, chosen, users));
  if (!is_tasukis) append(words, time_to_end(settings, around.runtime, users));
  if (!placement.hostfile.empty()) {
    append(words, {"--hostfile", placement.hostfile});
    constexpr const char* domains = "orte_keep_fqdn_hostnames";
    if (placement.needs_domains && !users.find({domains}))
      append(words, words_to_set(around.runtime, domains, "1"));
    // The remote shell reads the path. PRRTE takes the flag --launch-agent, and forgets it.
    constexpr const char* agent = "orte_launch_agent";
    if (!around.start_orted.empty() && !has_flag(chosen, {"launch-agent", "prefix"}) &&
        !users.find({agent})) {
      const std::string path = quoted(around.start_orted);
      append(words, around.runtime == MpiRuntime::orte ? Words{"--launch-agent", path}
                                                       : words_to_set(around.runtime, agent, path));
    }
  }
  if (placement.np && *placement.np > placement.slots.value_or(0) &&
      !has_flag(chosen, {"oversubscribe", "nooversubscribe"}))
    words.emplace_back("--oversubscribe");
  if (!has_flag(chosen, {"bind-to", "map-by", "rank-by", "cpus-per-rank", "rankfile"}))
    append(words, binding(around, placement));
  if (has_other_hosts)
    for (const std::string& name : around.exported) append(words, {"-x", name});
  append(words, chosen);
  return launch;
}

Launch launch_with_srun(const Surroundings& around, const Placement& placement,
                        const Words& chosen) {
  Launch launch;
  launch.words = {"srun", "--kill-on-bad-exit=1"};
  if (placement.np) launch.words.push_back(fmt::format("--ntasks={}", *placement.np));
  if (!around.srun_mpi.empty() &&
      std::ranges::none_of(chosen, [](const auto& word) { return word.starts_with("--mpi"); }))
    launch.words.push_back("--mpi=" + around.srun_mpi);
  append(launch.words, chosen);
  return launch;
}

}  // namespace

std::string quoted(const std::string& word) {
  const bool is_plain =
      !word.empty() && word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                           "_-+=./,:@%^") == std::string::npos;
  if (is_plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string Launch::text() const {
  std::string line;
  for (const auto& [name, value] : environment) line += name + '=' + quoted(value) + ' ';
  for (const std::string& word : words) line += (&word == words.data() ? "" : " ") + quoted(word);
  return line;
}

bool has_one_core_each(const Surroundings& around, const Placement& placement) {
  return placement.hostfile.empty() && placement.np && *placement.np == around.cores;
}

std::optional<int> default_np(const Surroundings& around, const std::vector<Host>& hosts,
                              const Words& launcher_words) {
  const bool is_per_host = has_flag(launcher_words, {"npernode", "N", "npersocket"}) ||
                           std::ranges::any_of(launcher_words, [](const auto& word) {
                             return word.starts_with("ppr:");
                           });
  if (is_per_host) return std::nullopt;
  if (!hosts.empty()) return slots_of(hosts);
  if (around.slurm) return around.slurm->tasks;
  return around.cores;
}

Placement place(const Surroundings& around, std::optional<int> np, const std::vector<Host>& hosts,
                const std::string& hostfile) {
  return {np, hostfile, default_np(around, hosts)};
}

Launch make_launch(const SupervisorSettings& settings, const Surroundings& around,
                   const Placement& placement, const Program& program,
                   const std::vector<std::string>& words) {
  Launch launch = settings.launcher == LauncherKind::srun
                      ? launch_with_srun(around, placement, settings.launcher_words)
                  : is_hydra(around.runtime)
                      ? launch_with_hydra(settings, around, placement)
                      : launch_with_mpirun(settings, around, placement, program.is_known());
  append(launch.words, words);
  launch.reads_input = settings.passes_stdin;
  return launch;
}

}  // namespace tasuki::supervisor
