// Environment variables that change what a rank does, and should be the same on all.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "core/job_process.hpp"
#include "core/printable.hpp"
#include "program/start/rank_setup.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

constexpr const char* settings_title = "environment";

// Those that tasuki-run gives to its ranks differ from start to start.
bool matters(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  if (name == job_age_variable || name == program::supervisor_variable) return false;
  constexpr std::array<std::string_view, 7> prefixes = {"TASUKI_", "OMP_",  "GOMP_", "KMP_",
                                                        "ONEDNN_", "DNNL_", "NCCL_"};
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

json look_at_settings(const Place&) {
  json variables = json::object();
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const auto end = text.find('=');
    if (end != text.npos && matters(text))
      variables[std::string(text.substr(0, end))] = text.substr(end + 1);
  }
  return variables;
}

std::string value_of(const json& variables, const std::string& name) {
  if (!variables.contains(name)) return "not set";
  return quoted_input(variables.at(name).get<std::string>());
}

void judge_settings(const std::vector<Seen>& seen, const Settings&, Report& report) {
  const Seen& first = seen.front();
  std::set<std::string> names, different;
  for (const Seen& each : seen)
    for (const auto& [name, value] : each.facts.items()) names.insert(name);
  for (const std::string& name : names)
    for (const Seen& each : seen) {
      const std::string own = value_of(each.facts, name), usual = value_of(first.facts, name);
      if (own == usual) continue;
      different.insert(name);
      report.warn(
          settings_title, {each.rank},
          fmt::format("{} is {}, and {} on {}", name, own, usual, report.where({first.rank})),
          fmt::format("start with tasuki-run, which sends it to all ranks, or with "
                      "mpirun -x {}; look for it in ~/.bashrc and wrappers of that host",
                      name));
    }
  std::vector<std::string> same;
  for (const std::string& name : names)
    if (!different.contains(name))
      same.push_back(fmt::format("{}={}", name, value_of(first.facts, name)));
  if (different.empty())
    report.ok(settings_title, report.all(),
              same.empty() ? "no variables of Tasuki, OpenMP, oneDNN and NCCL are set"
                           : join(same, ", ") + (seen.size() > 1 ? ", the same on all ranks" : ""));
}

}  // namespace

const Check environment_check = {settings_title, false, look_at_settings, judge_settings};

}  // namespace tasuki::doctor
