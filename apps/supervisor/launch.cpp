#include "supervisor/launch.hpp"

#include <algorithm>
#include <cmath>

#include "tasuki/core/error.hpp"

namespace tasuki::supervisor {
namespace {

using Words = std::vector<std::string>;

constexpr double default_kill_delay = 1;  // seconds from SIGTERM to SIGKILL, without a setting

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// mpirun takes its flags with one dash or two, and --tune also in its older form.
bool has_flag(const Words& words, const Words& names) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return word == "-" + name || word == "--" + name; });
  });
}

// Of mpirun, for this placement.
Words binding(const Surroundings& around, const Placement& placement) {
  if (around.slurm && placement.hostfile.empty()) {
    const SlurmJob& job = *around.slurm;
    if (!job.tasks_per_node || job.cpus_per_task.value_or(1) < 2) return {};
    return {"--map-by", fmt::format("ppr:{}:node:PE={}", *job.tasks_per_node, *job.cpus_per_task),
            "--bind-to", "core"};
  }
  const bool is_one_core_each =
      placement.hostfile.empty() && placement.np && *placement.np == around.cores;
  return is_one_core_each ? Words{} : Words{"--bind-to", "none"};
}

// Of mpirun, for a program that ends by SIGTERM.
Words time_to_end(const Settings& settings) {
  constexpr const char* parameter = "odls_base_sigkill_timeout";
  if (std::ranges::find(settings.launcher_words, parameter) != settings.launcher_words.end())
    return {};
  const double seconds =
      settings.is_stop_timeout_given ? settings.stop_timeout : default_kill_delay;
  return {"--mca", parameter, fmt::format("{:.0f}", std::ceil(seconds))};
}

Launch launch_with_mpirun(const Settings& settings, const Surroundings& around,
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
  if (!around.tune.empty() && !has_flag(chosen, {"tune", "am"}))
    append(words, {"--tune", around.tune});
  if (!is_tasukis) append(words, time_to_end(settings));
  if (!placement.hostfile.empty()) {
    append(words, {"--hostfile", placement.hostfile});
    // The remote shell reads this word.
    if (!around.start_orted.empty() && !has_flag(chosen, {"launch-agent", "prefix"}))
      append(words, {"--launch-agent", quoted(around.start_orted)});
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

Launch launch_with_srun(const Placement& placement, const Words& chosen) {
  Launch launch;
  launch.words = {"srun", "--kill-on-bad-exit=1"};
  if (placement.np) launch.words.push_back(fmt::format("--ntasks={}", *placement.np));
  if (std::ranges::none_of(chosen, [](const auto& word) { return word.starts_with("--mpi"); }))
    launch.words.emplace_back("--mpi=pmix");
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

Launch make_launch(const Settings& settings, const Surroundings& around, const Placement& placement,
                   const Program& program, const std::vector<std::string>& words) {
  Launch launch = settings.launcher == LauncherKind::srun
                      ? launch_with_srun(placement, settings.launcher_words)
                      : launch_with_mpirun(settings, around, placement, program.is_known());
  append(launch.words, words);
  return launch;
}

}  // namespace tasuki::supervisor
