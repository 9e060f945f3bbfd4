#include "tools/plot/curves.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/named_file.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"

namespace tasuki::plot {
namespace fs = std::filesystem;
namespace {

struct Run {
  std::string name;
  nlohmann::json log;
};

nlohmann::json read_log(const fs::path& run) {
  const fs::path file = fs::is_directory(status_of(run)) ? run / "log" : run;
  nlohmann::json log = parse_json(read_up_to(file, own_log_limit), file.string(), limits_of_logs);
  if (!log.is_array() || !std::ranges::all_of(log, &nlohmann::json::is_object))
    fail(ErrorKind::data, "{}: expected the log of a run, a list of objects, found something else",
         file.string());
  return log;
}

// The folder's name, of a log its folder's.
std::string name_of(const fs::path& run) {
  fs::path path = fs::absolute(run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "result/"
  if (!fs::is_directory(status_of(run)) && path.filename() == "log") path = path.parent_path();
  return printable(path.filename().string());
}

// Runs of one name are told apart by their paths.
std::vector<Run> read_runs(std::span<const fs::path> paths) {
  std::vector<Run> runs;
  for (const fs::path& path : paths) runs.push_back({name_of(path), read_log(path)});
  std::multiset<std::string> names;
  for (const Run& run : runs) names.insert(run.name);
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (names.count(runs[i].name) > 1) runs[i].name = printable(paths[i].string());
  return runs;
}

std::optional<double> number_in(const nlohmann::json& entry, const std::string& key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_number()) return std::nullopt;
  const double number = found->get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool has(const Run& run, const std::string& key) {
  return std::ranges::any_of(
      run.log, [&](const nlohmann::json& entry) { return number_in(entry, key).has_value(); });
}

std::string keys_of(std::span<const Run> runs) {
  std::set<std::string> keys;
  for (const Run& run : runs)
    for (const nlohmann::json& entry : run.log)
      for (const auto& [key, value] : entry.items())
        if (value.is_number()) keys.insert(printable(key));
  const std::vector<std::string> all(keys.begin(), keys.end());
  return all.empty() ? "none" : join(all, ", ");
}

std::vector<std::string> chosen_keys(std::span<const Run> runs, std::span<const std::string> keys) {
  const auto is_known = [&](const std::string& key) {
    return std::ranges::any_of(runs, [&](const Run& run) { return has(run, key); });
  };
  std::vector<std::string> chosen;
  for (const std::string& key : keys.empty() ? usual_keys() : keys) {
    if (is_known(key))
      chosen.push_back(key);
    else if (!keys.empty())
      fail(ErrorKind::usage, "--keys: no log has '{}'; there are {}", printable(key),
           keys_of(runs));
  }
  if (chosen.empty())
    fail(ErrorKind::usage, "no log has one of {}; choose keys with --keys from {}",
         join(usual_keys(), ", "), keys_of(runs));
  return chosen;
}

std::string label_of(const std::string& key) {
  return printable(key.substr(key.rfind('/') + 1));
}

}  // namespace

std::span<const std::string> usual_keys() {
  static const std::array<std::string, 4> keys = {"main/loss", "validation/main/loss",
                                                  "main/accuracy", "validation/main/accuracy"};
  return keys;
}

std::vector<Panel> read_panels(std::span<const fs::path> paths, std::span<const std::string> keys,
                               const std::string& x) {
  const std::vector<Run> runs = read_runs(paths);
  const std::vector<std::string> chosen = chosen_keys(runs, keys);
  std::vector<Panel> panels;
  for (const std::string& key : chosen) {
    const std::string label = label_of(key);
    auto panel = std::ranges::find(panels, label, &Panel::label);
    if (panel == panels.end()) panel = panels.insert(panels.end(), {label, {}});
    const bool is_one_of_several = std::ranges::count(chosen, label, [](const std::string& each) {
                                     return label_of(each);
                                   }) > 1;
    for (const Run& run : runs) {
      Curve curve{is_one_of_several ? fmt::format("{} {}", run.name, printable(key)) : run.name,
                  {}};
      for (const nlohmann::json& entry : run.log) {
        const auto at = number_in(entry, x), value = number_in(entry, key);
        if (at && value) curve.points.emplace_back(*at, *value);
      }
      if (!curve.points.empty()) panel->curves.push_back(std::move(curve));
    }
  }
  std::erase_if(panels, [](const Panel& panel) { return panel.curves.empty(); });
  if (panels.empty()) fail(ErrorKind::data, "no entry of the logs has the key {}", x);
  return panels;
}

}  // namespace tasuki::plot
