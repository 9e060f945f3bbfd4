// On which CPUs the ranks of a machine run, and with how many threads.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "program/start/processors.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

constexpr const char* binding_title = "binding";
constexpr const char* unbind =
    "start with tasuki-run, or with mpirun --bind-to none (MPICH, Intel MPI: -bind-to none)";

json look_at_binding(const Place&) {
  const program::Processors processors = program::find_processors();
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  return {{"cpus", processors.cpus},
          {"cores", processors.cores},
          {"online", sysconf(_SC_NPROCESSORS_ONLN)},
          {"machine", program::system_id()},
          {"OMP_NUM_THREADS", threads != nullptr ? json(threads) : json()}};
}

struct Rank {
  int number = 0;
  std::vector<int> cpus;
  int online = 0;
  program::ThreadPlan plan = {};

  bool is_bound() const { return std::ssize(cpus) < online; }
};

// The ranks that run on no other CPUs than these.
std::set<int> inside(const std::vector<int>& cpus, const std::vector<Rank>& ranks) {
  std::set<int> found;
  for (const Rank& rank : ranks)
    if (std::ranges::includes(cpus, rank.cpus)) found.insert(rank.number);
  return found;
}

bool overlap_in_part(const Rank& a, const Rank& b) {
  std::vector<int> common;
  std::ranges::set_intersection(a.cpus, b.cpus, std::back_inserter(common));
  return !common.empty() && common.size() < std::min(a.cpus.size(), b.cpus.size());
}

// Returns whether there is a fault.
bool judge_bound(const std::vector<Rank>& ranks, Report& report) {
  bool is_faulty = false;
  for (const Rank& rank : ranks) {
    if (!rank.is_bound()) continue;
    const std::set<int> crowd = inside(rank.cpus, ranks);
    if (crowd.size() > rank.cpus.size()) {
      is_faulty = true;
      report.warn(binding_title, crowd,
                  fmt::format("ranks {} are bound to CPU {}, fewer CPUs than ranks",
                              fmt::join(crowd, " and "), program::cpu_list(rank.cpus)),
                  fmt::format("{}, or --map-by core --bind-to core", unbind));
    }
    for (const Rank& other : ranks)
      if (rank.number < other.number && other.is_bound() && overlap_in_part(rank, other)) {
        is_faulty = true;
        report.warn(binding_title, {rank.number, other.number},
                    fmt::format("bindings overlap: CPUs {} and {}", program::cpu_list(rank.cpus),
                                program::cpu_list(other.cpus)),
                    unbind);
      }
  }
  return is_faulty;
}

bool judge_threads(const std::vector<Rank>& ranks, int cores, Report& report) {
  std::set<int> numbers;
  int threads = 0;
  bool is_requested = false, is_faulty = false;
  for (const Rank& rank : ranks) {
    numbers.insert(rank.number);
    threads += rank.plan.threads;
    is_requested = is_requested || !rank.plan.origin.empty();
    if (rank.plan.lost_to_binding == 0) continue;
    is_faulty = true;
    report.warn(binding_title, {rank.number},
                fmt::format("bound to {} of the {} cores that it could use", rank.plan.threads,
                            rank.plan.threads + rank.plan.lost_to_binding),
                unbind);
  }
  if (threads <= cores) return is_faulty;
  const int most = std::max(1, cores / static_cast<int>(ranks.size()));
  if (static_cast<int>(ranks.size()) > cores)
    report.warn(binding_title, numbers,
                fmt::format("{} take turns on {}", counted(std::ssize(ranks), "rank"),
                            counted(cores, "core")),
                fmt::format("start at most {} there for full speed", counted(cores, "rank")));
  else
    report.warn(binding_title, numbers,
                fmt::format("OMP_NUM_THREADS asks for {} of {} on {}", counted(threads, "thread"),
                            counted(std::ssize(ranks), "rank"), counted(cores, "core")),
                fmt::format("unset OMP_NUM_THREADS, or set it to {}", most));
  return true;
}

void judge_machine(const std::vector<const Seen*>& seen, Report& report) {
  std::vector<Rank> ranks;
  int cores = 1;
  for (const Seen* each : seen) {
    const json& facts = each->facts;
    cores = std::max(cores, facts.at("cores").get<int>());
    const json& text = facts.at("OMP_NUM_THREADS");
    const std::string threads = text.is_null() ? "" : text.get<std::string>();
    Rank rank{each->rank, facts.at("cpus"), facts.at("online")};
    rank.plan = program::plan_threads(
        program::requested_threads(std::nullopt, text.is_null() ? nullptr : threads.c_str()),
        facts.at("cores"), static_cast<int>(seen.size()), static_cast<int>(rank.cpus.size()));
    ranks.push_back(rank);
  }
  const bool is_crowded = judge_bound(ranks, report);
  if (judge_threads(ranks, cores, report) || is_crowded) return;
  for (const Rank& rank : ranks)
    report.ok(binding_title, {rank.number},
              fmt::format("{} on CPU {}", counted(rank.plan.threads, "thread"),
                          program::cpu_list(rank.cpus)));
}

// Hosts that are namespaces of one machine share its cores.
void judge_binding(const std::vector<Seen>& seen, const Settings&, Report& report) {
  std::map<std::string, std::vector<const Seen*>> machines;
  for (const Seen& each : seen) {
    std::string machine = each.facts.at("machine");
    if (machine.empty()) machine = report.where(report.host_of(each.rank));
    machines[machine].push_back(&each);
  }
  for (const auto& [machine, ranks] : machines) judge_machine(ranks, report);
}

}  // namespace

const Check binding_check = {"binding", false, look_at_binding, judge_binding};

}  // namespace tasuki::doctor
