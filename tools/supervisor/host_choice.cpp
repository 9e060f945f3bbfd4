#include "tools/supervisor/host_choice.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/named_file.hpp"
#include "tools/supervisor/hydra.hpp"

namespace tasuki::supervisor {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds longest_answer{10};  // of a host that is asked
constexpr milliseconds asked_again{2000};
constexpr int most_ranks_of_core = 128;  // with tens of thousands of ranks, mpirun never finishes
                                         // its start

std::vector<Host> read_hosts(const SupervisorSettings& settings) {
  if (!settings.hostfile) return {};
  return parse_hostfile(read_text_file(*settings.hostfile), *settings.hostfile);
}

// Whether the launcher can read the user's file. A pipe has no second reader.
bool is_launchers_file(const Surroundings& around, const std::string& hostfile) {
  return !is_hydra(around.runtime) && std::filesystem::is_regular_file(hostfile) &&
         is_plain_hostfile(read_file(hostfile));
}

std::unique_ptr<processes::MemoryFile> make_hostfile(const Surroundings& around,
                                                     const std::vector<Host>& hosts) {
  return std::make_unique<processes::MemoryFile>(is_hydra(around.runtime) ? hydra_hostfile(hosts)
                                                                          : hostfile_text(hosts));
}

std::vector<std::string> launchers_shell(const Surroundings& around,
                                         const std::vector<std::string>& launcher_words) {
  if (is_hydra(around.runtime)) return hydra_remote_shell(around.runtime, launcher_words);
  return remote_shell(McaParameters(launcher_words, around.mca_files, around.runtime));
}

std::vector<std::string> names_in(const std::vector<Host>& hosts) {
  std::vector<std::string> names(hosts.size());
  std::ranges::transform(hosts, names.begin(), &Host::name);
  return names;
}

bool is_among(const Host& host, const std::vector<Host>& hosts) {
  return std::ranges::find(hosts, host.name, &Host::name) != hosts.end();
}

std::optional<int> first_np(const SupervisorSettings& settings, const Surroundings& around,
                            const std::vector<Host>& hosts) {
  if (settings.np) return static_cast<int>(*settings.np);
  return default_np(around, hosts, settings.launcher_words);
}

}  // namespace

HostChoice::HostChoice(const SupervisorSettings& settings, const Surroundings& around,
                       const Program& program, const Signals& signals, StopRequest& stop,
                       Incidents& incidents)
    : settings_(settings),
      around_(around),
      program_(program),
      signals_(signals),
      stop_(stop),
      incidents_(incidents),
      all_(read_hosts(settings)),
      used_(all_),
      np_(first_np(settings, around, all_)),
      present_np_(np_),
      are_fewer_allowed_(settings.min_np.has_value()) {
  if (settings.min_np && !np_)
    fail(ErrorKind::usage,
         "--min-np: expected -np N, or slots=N on each line of --hostfile, found neither");
  if (settings.min_np && *settings.min_np > *np_)
    fail(ErrorKind::usage, "--min-np: expected at most the {} ranks of the first start, found {}",
         *np_, *settings.min_np);
  const int most = most_ranks_of_core * around.cores;
  if (np_ && *np_ > most && all_.empty() && settings.launcher_words.empty() && !around.slurm)
    fail(
        ErrorKind::usage,
        "-np: expected at most {} ranks on this machine ({} for each of {} core{}), found {}; name "
        "other hosts by --hostfile FILE",
        most, most_ranks_of_core, around.cores, around.cores == 1 ? "" : "s", *np_);
  if (settings.hostfile && !is_launchers_file(around, *settings.hostfile))
    own_hostfile_ = make_hostfile(around, all_);
}

Placement HostChoice::placement() const {
  Placement placement =
      place(around_, present_np_, used_,
            own_hostfile_ ? own_hostfile_->path().string() : settings_.hostfile.value_or(""));
  placement.is_here = std::ranges::all_of(used_, &Host::is_this_machine);
  placement.needs_domains = need_domains(used_);
  return placement;
}

nlohmann::ordered_json HostChoice::entries() const {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  if (present_np_) entries["np"] = *present_np_;
  if (!used_.empty()) entries["hosts"] = names_in(used_);
  return entries;
}

bool HostChoice::is_rank_0_here() const {
  if (!used_.empty()) return used_.front().is_this_machine();
  return !around_.slurm || around_.slurm->is_on_node;
}

bool HostChoice::require_all() {
  if (present_np_ == np_) return false;
  are_fewer_allowed_ = false;
  return true;
}

void HostChoice::note(const std::vector<Host>& good) {
  for (const Host& host : all_) {
    const bool was_good = is_among(host, used_), is_good = is_among(host, good);
    if (was_good == is_good) continue;
    say(is_good ? fmt::format("{} answers again", host.name)
                : fmt::format("{} does not answer and is left out", host.name));
    incidents_.add(is_good ? "host_back" : "host_lost", {{"host", host.name}});
  }
}

void HostChoice::take(const std::vector<Host>& good, int np) {
  note(good);
  const bool are_others = names_in(used_) != names_in(good);
  used_ = good;
  if (np_ && np != *present_np_) {
    std::string batch;
    if (program_.can_resume() && !program_.keeps_global_batch())
      batch = ", and so another global batch (--global-batch would keep it)";
    say(fmt::format("{} rank{} instead of {} on {}{}", np, np == 1 ? "" : "s", *present_np_,
                    names_of(used_), batch));
    present_np_ = np;
  }
  if (are_others) own_hostfile_ = make_hostfile(around_, used_);
}

bool HostChoice::choose_again() {
  if (all_.empty()) return true;
  const std::int64_t least = are_fewer_allowed_ ? *settings_.min_np : np_.value_or(0);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(settings_.host_timeout);
  for (bool is_first = true;; is_first = false) {
    int signal = 0;
    const auto good = answering(all_, launchers_shell(around_, settings_.launcher_words),
                                longest_answer, signals_, signal);
    if (!good) {
      stop_.on_signal(signal);
      return false;
    }
    const bool are_all = good->size() == all_.size();
    const int np = !np_ || good->empty()
                       ? 0
                       : ranks_on(*good, all_, *np_, program_.shards(), static_cast<int>(least));
    if (are_all || np > 0) {
      take(*good, are_all ? np_.value_or(0) : np);
      return true;
    }
    std::vector<Host> lost;
    std::ranges::copy_if(all_, std::back_inserter(lost),
                         [&](const Host& host) { return !is_among(host, *good); });
    if (is_first) {
      say(fmt::format("waiting for {} at most {} s (--host-timeout)", names_of(lost),
                      settings_.host_timeout));
      incidents_.add("waiting_for_hosts", {{"hosts", names_in(lost)}});
    }
    if (std::chrono::steady_clock::now() > end) {
      say(fmt::format("giving up: {} did not answer within {} s", names_of(lost),
                      settings_.host_timeout));
      return false;
    }
    if (!stop_.wait(signals_, asked_again)) return false;
  }
}

}  // namespace tasuki::supervisor
