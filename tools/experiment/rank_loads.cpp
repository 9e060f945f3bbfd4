#include "tools/experiment/rank_loads.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "core/text_parts.hpp"
#include "program/report/result_files.hpp"

namespace tasuki::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// (rank, device); names are sorted in this order.
using Place = std::pair<int, int>;

// The median of a column's non-empty cells; nothing without such a column.
std::optional<double> median_of_column(const std::vector<std::vector<std::string>>& lines,
                                       const std::string& name) {
  const auto column = std::ranges::find(lines.front(), name) - lines.front().begin();
  std::vector<double> values;
  for (std::size_t line = 1; line < lines.size(); ++line)
    if (column < std::ssize(lines[line]) && !lines[line][static_cast<std::size_t>(column)].empty())
      values.push_back(std::stod(lines[line][static_cast<std::size_t>(column)]));
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

RankLoad read_monitor(const fs::path& file) {
  std::string whole = read_own_file(file, own_log_limit);
  whole.erase(whole.rfind('\n') + 1);  // without a line that a killed rank left incomplete
  std::istringstream text(whole);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(text_parts(line, ','));
  RankLoad load;
  if (lines.empty()) return load;
  try {
    const auto either = [&](const char* of_gpu, const char* of_process) {
      const auto found = median_of_column(lines, of_gpu);
      return found ? found : median_of_column(lines, of_process);
    };
    load.load_percent = either("gpu_percent", "cpu_percent");
    load.memory_mb = either("gpu_memory_mb", "memory_mb");
  } catch (const std::logic_error&) {  // of std::stod
    fail(ErrorKind::data, "{}: expected numbers separated by commas, found something else",
         file.string());
  }
  return load;
}

// "monitor.1.csv" as {1, 0}, "monitor.1.2.csv" as {1, 2}; nothing for other files.
std::optional<Place> place_of(const std::string& name) {
  int rank = 0, device = 0, length = 0;
  const int size = static_cast<int>(name.size());
  if (std::sscanf(name.c_str(), "monitor.%d.%d.csv%n", &rank, &device, &length) == 2 &&
      length == size)
    return Place{rank, device};
  length = 0;
  if (std::sscanf(name.c_str(), "monitor.%d.csv%n", &rank, &length) == 1 && length == size)
    return Place{rank, 0};
  return std::nullopt;
}

void add_step_times(const fs::path& file, std::map<Place, RankLoad>& loads) {
  const auto text = read_file_if_there(file);
  if (!text) return;
  try {
    for (const json& device : parse_json(*text, file.string())) {
      const auto load = loads.find({device.at("rank"), device.at("worker")});
      if (load == loads.end()) continue;
      double all = 0;
      for (const char* part : {"input", "forward", "backward", "exchange", "update"})
        all += device.at(part).get<double>();
      load->second.input_seconds = device.at("input").get<double>();
      load->second.step_seconds = all;
    }
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "{}: expected the times of a training program, found something else: {}",
         file.string(), error.what());
  }
}

}  // namespace

std::vector<RankLoad> read_rank_loads(const fs::path& folder) {
  std::map<Place, RankLoad> loads;
  std::error_code ignored;  // the run may have failed before it had a folder
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (const auto place = place_of(entry.path().filename().string()))
      loads[*place] = read_monitor(entry.path());
  add_step_times(folder / program::step_times_file, loads);
  std::vector<RankLoad> found;
  for (auto& [place, load] : loads) {
    const bool has_several = std::ranges::count(loads, place.first, [](const auto& each) {
                               return each.first.first;
                             }) > 1;
    load.name = has_several ? fmt::format("{}.{}", place.first, place.second)
                            : fmt::format("{}", place.first);
    found.push_back(std::move(load));
  }
  return found;
}

void remove_monitor_files(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (!place_of(name)) continue;
    std::error_code error;
    fs::remove(folder / name, error);
    if (error)
      fail_because(error, ErrorKind::cannot_write, "cannot remove {}", (folder / name).string());
  }
}

}  // namespace tasuki::experiment
