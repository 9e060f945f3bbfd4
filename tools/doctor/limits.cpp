// Limits of a process: ulimit, and the control groups' on processes.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/control_groups.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

constexpr double mebibyte = double{1 << 20};

struct Limit {
  const char* name;    // key of the facts
  int resource;        // of getrlimit
  const char* letter;  // of ulimit
  const char* what;    // "open files"
  double unit;         // of ulimit's number, in getrlimit's
  double enough;       // below it, a warning; 0: any limit is one
  double least;        // below it, an error
  const char* is_for;  // why
};

// Locked memory (which only networks with remote memory access need) and core files are looked at
// below.
constexpr std::array limits = {
    Limit{"files", RLIMIT_NOFILE, "n", "open files", 1, 1024, 128,
          "a rank opens its data, and connections to other ranks"},
    Limit{"processes", RLIMIT_NPROC, "u", "processes and threads of the user", 1, 512, 64,
          "each rank has threads that compute and that watch the job"},
    Limit{"stack", RLIMIT_STACK, "s", "bytes of stack", 1024, 2 * mebibyte, mebibyte / 4,
          "threads of OpenMP get as much"},
    Limit{"file size", RLIMIT_FSIZE, "f", "bytes in a file", 1024, 0, 0, "checkpoints must fit"},
    Limit{"seconds", RLIMIT_CPU, "t", "seconds of computing", 1, 0, 0,
          "the system ends a rank after that"},
};

// As the process was started; nothing if that was not changed.
std::optional<rlim_t> files_at_start;

// -1: no limit.
double soft_limit(int resource) {
  if (resource == RLIMIT_NOFILE && files_at_start) return static_cast<double>(*files_at_start);
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return -1;
  return static_cast<double>(limit.rlim_cur);
}

// Of the groups that this process is in; nothing if they set none.
std::optional<double> most_processes_of_groups() {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("pids")) {
    double most = 0;
    if (std::ifstream(group.folder / "pids.max") >> most)
      least = std::min(least.value_or(most), most);
  }
  return least;
}

bool has_infiniband() {
  std::error_code ignored;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", ignored);
  return !ignored && devices != std::filesystem::directory_iterator();
}

json look_at_limits(const Place&) {
  json facts = json::object();
  for (const Limit& limit : limits) facts[limit.name] = soft_limit(limit.resource);
  facts["locked"] = soft_limit(RLIMIT_MEMLOCK);
  facts["infiniband"] = has_infiniband();
  facts["core"] = soft_limit(RLIMIT_CORE);
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  facts["core_pattern"] = pattern;
  const auto most = most_processes_of_groups();
  facts["group"] = most ? json(*most) : json();
  return facts;
}

// Returns whether it is too low.
bool judge_limit(const Limit& limit, const Seen& seen, Report& report) {
  const double value = seen.facts.at(limit.name);
  if (value < 0 || (limit.enough > 0 && value >= limit.enough)) return false;
  const std::string found = fmt::format("at most {:.0f} {} (ulimit -{}); {}", value, limit.what,
                                        limit.letter, limit.is_for);
  const std::string remedy = fmt::format(
      "ulimit -{} {}, on other hosts in /etc/security/limits.conf, in containers --ulimit",
      limit.letter,
      limit.enough > 0 ? fmt::format("{:.0f}", 4 * limit.enough / limit.unit) : "unlimited");
  if (value < limit.least)
    report.fail("limits", {seen.rank}, found, remedy);
  else
    report.warn("limits", {seen.rank}, found, remedy);
  return true;
}

std::string cores_text(const json& facts) {
  if (facts.at("core") == 0.) return "no core dumps";
  return fmt::format("core dumps go to \"{}\"", facts.at("core_pattern").get<std::string>());
}

void judge_limits(const std::vector<Seen>& seen, const Settings&, Report& report) {
  for (const Seen& each : seen) {
    const json& facts = each.facts;
    bool is_low = false;
    for (const Limit& limit : limits) is_low = judge_limit(limit, each, report) || is_low;
    constexpr double enough_processes = 256;
    if (!facts.at("group").is_null() && facts.at("group") < enough_processes) {
      is_low = true;
      report.warn("limits", {each.rank},
                  fmt::format("a control group allows {:.0f} processes and threads",
                              facts.at("group").get<double>()),
                  "raise it (docker run --pids-limit, systemd's TasksMax)");
    }
    const double locked = facts.at("locked");
    if (facts.at("infiniband").get<bool>() && locked >= 0 && locked < 1024 * mebibyte) {
      is_low = true;
      report.warn(
          "limits", {each.rank},
          fmt::format("{} of locked memory (ulimit -l), and there is InfiniBand, which locks "
                      "what it sends",
                      size_text(locked)),
          "ulimit -l unlimited, on other hosts in /etc/security/limits.conf");
    }
    if (is_low) continue;
    report.ok(
        "limits", {each.rank},
        fmt::format("{:.0f} open files, {} of locked memory, {}", facts.at("files").get<double>(),
                    locked < 0 ? "any amount" : size_text(locked), cores_text(facts)));
  }
}

}  // namespace

void make_room_for_mpi() {
  constexpr rlim_t enough = 256, least = 32;  // MPI_Init of Open MPI 4.1 fails with 16
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  files_at_start = limit.rlim_cur;
  limit.rlim_cur = std::min(enough, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < least)
    fail(ErrorKind::config,
         "limits ({}): at most {} open files (ulimit -n), with which MPI cannot start; ulimit -n "
         "4096, on other hosts in /etc/security/limits.conf, in containers --ulimit",
         host_name(), *files_at_start);
}

const Check limit_check = {"limits", false, look_at_limits, judge_limits};

}  // namespace tasuki::doctor
