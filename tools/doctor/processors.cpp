// Cores of a host: how many, who else uses them, and what control groups allow.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "core/error.hpp"
#include "program/start/processors.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

json look_at_processors(const Place&) {
  const auto quota = program::cpu_quota();
  return {{"machine", program::describe_machine()},
          {"memory_nodes", program::memory_nodes()},
          {"online", sysconf(_SC_NPROCESSORS_ONLN)},
          {"quota", quota ? json(*quota) : json()}};
}

void judge_processors(const std::vector<Seen>& seen, const Settings&, Report& report) {
  for (const Seen& each : seen) {
    const std::set<int> host = report.host_of(each.rank);
    const json& facts = each.facts;
    const double online = facts.at("online");
    std::string text = fmt::format("{}; {}", facts.at("machine").get<std::string>(),
                                   counted(facts.at("memory_nodes"), "NUMA node"));
    if (facts.at("quota").is_null() || facts.at("quota") >= online) {
      report.ok("processors", host, text);
      continue;
    }
    const double quota = facts.at("quota");
    report.warn("processors", host,
                fmt::format("{}; a control group allows {:.3g} of {} CPUs", text, quota, online),
                "raise the limit (docker run --cpus, Kubernetes' limits.cpu, systemd's CPUQuota), "
                "or start fewer ranks and threads");
  }
}

json look_at_load(const Place&) {
  double load = 0;
  if (getloadavg(&load, 1) != 1) fail(ErrorKind::unavailable, "the system does not tell its load");
  return {{"load", load}, {"online", sysconf(_SC_NPROCESSORS_ONLN)}};
}

// The ranks of a job that has just begun are a small part of a minute's average, but may be all of
// the last seconds.
void judge_load(const std::vector<Seen>& seen, const Settings&, Report& report) {
  for (const Seen& each : seen) {
    const std::set<int> host = report.host_of(each.rank);
    const double load = each.facts.at("load"), online = each.facts.at("online");
    const std::string text = fmt::format(
        "{:.1f} processes ran on average in the last minute, on {} "
        "CPUs",
        load, online);
    if (load < 0.75 * online + static_cast<double>(host.size()))
      report.ok("load", host, text);
    else
      report.warn("load", host, text,
                  "other work takes the cores: look with top, and wait for its end or stop it");
  }
}

}  // namespace

const Check processor_check = {"processors", true, look_at_processors, judge_processors};
const Check load_check = {"load", true, look_at_load, judge_load};

}  // namespace tasuki::doctor
