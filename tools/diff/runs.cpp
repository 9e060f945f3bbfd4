#include "tools/diff/runs.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/named_file.hpp"
#include "core/own_file.hpp"
#include "program/report/about.hpp"
#include "saving/saved_states.hpp"

namespace tasuki::diff {
namespace fs = std::filesystem;
namespace {

// Flags of outputs and of when something is saved or said, which results do not depend on.
constexpr std::array<std::string_view, 34> flags_of_outputs = {"check-data",
                                                               "check-replicas",
                                                               "checkpoint-every",
                                                               "dry-run",
                                                               "find-batchsize",
                                                               "hash-every",
                                                               "histograms",
                                                               "keep",
                                                               "keep-best",
                                                               "log-every",
                                                               "log-steps",
                                                               "max-loss",
                                                               "monitor",
                                                               "out",
                                                               "overwrite",
                                                               "print-every",
                                                               "probe",
                                                               "progress-every",
                                                               "quiet",
                                                               "resume",
                                                               "silence-timeout",
                                                               "snapshot-every",
                                                               "stall-timeout",
                                                               "stall-warning",
                                                               "summary",
                                                               "tensorboard",
                                                               "time-limit",
                                                               "trace",
                                                               "trace-steps",
                                                               "verbose",
                                                               "share-gpu",
                                                               "test-examples",
                                                               "snapshot-interval",
                                                               "display-interval"};

nlohmann::json read_about(const fs::path& file) {
  nlohmann::json about = parse_json(read_own_file(file), file.string());
  if (!about.is_object())
    fail(ErrorKind::data, "{}: expected an object, found something else", file.string());
  return about;
}

std::string text_of(const nlohmann::json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

nlohmann::json member(const nlohmann::json& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() ? nlohmann::json() : *found;
}

bool is_there(const fs::path& file) {
  return fs::exists(status_of(file));
}

nlohmann::json read_log(const fs::path& file) {
  nlohmann::json log =
      parse_json(read_own_file(file, own_log_limit), file.string(), limits_of_logs);
  if (!log.is_array() || !std::ranges::all_of(log, &nlohmann::json::is_object))
    fail(ErrorKind::data, "{}: expected the log of a run, a list of objects, found something else",
         file.string());
  return log;
}

// "elapsed_time", "time/input/max".
bool is_of_clock(const std::string& key) {
  return key == "elapsed_time" || key.starts_with("time/");
}

std::vector<Pair> compare_entries(const nlohmann::json& a, const nlohmann::json& b) {
  std::vector<Pair> values;
  for (const auto& [key, value] : a.items())
    if (const nlohmann::json other = member(b, key); !is_of_clock(key) && value != other)
      values.push_back({key, json_text(value), b.contains(key) ? json_text(other) : ""});
  for (const auto& [key, value] : b.items())
    if (!is_of_clock(key) && !a.contains(key)) values.push_back({key, "", json_text(value)});
  return values;
}

}  // namespace

std::optional<std::vector<Pair>> compare_settings(const fs::path& a, const fs::path& b) {
  const fs::path file_a = a / program::about_file, file_b = b / program::about_file;
  if (!is_there(file_a) || !is_there(file_b)) return std::nullopt;
  const nlohmann::json about_a = read_about(file_a), about_b = read_about(file_b);
  std::vector<Pair> found;
  const auto compare = [&](const std::string& shown, const nlohmann::json& in_a,
                           const nlohmann::json& in_b) {
    if (in_a != in_b) found.push_back({shown, text_of(in_a), text_of(in_b)});
  };
  for (const char* const name :
       {"program", "version", "machine", "device", "dataset", "data", "ranks", "global_batch"})
    compare(name, member(about_a, name), member(about_b, name));
  const nlohmann::json flags_a = member(about_a, "flags"), flags_b = member(about_b, "flags");
  if (!flags_a.is_object() || !flags_b.is_object()) return found;
  nlohmann::json all = flags_a;
  all.update(flags_b);
  for (const auto& [flag, value] : all.items())
    // The folder of the data is among the members above, as it was found.
    if (std::ranges::find(flags_of_outputs, flag) == flags_of_outputs.end() && flag != "data")
      compare("--" + flag, member(flags_a, flag), member(flags_b, flag));
  return found;
}

std::optional<LogComparison> compare_logs(const fs::path& a, const fs::path& b) {
  if (!is_there(a / "log") || !is_there(b / "log")) return std::nullopt;
  const nlohmann::json log_a = read_log(a / "log"), log_b = read_log(b / "log");
  std::map<std::int64_t, const nlohmann::json*> in_b;
  for (const nlohmann::json& entry : log_b)
    if (const auto iteration = integer_in(member(entry, "iteration"))) in_b[*iteration] = &entry;
  LogComparison found;
  for (const nlohmann::json& entry : log_a) {
    const auto iteration = integer_in(member(entry, "iteration"));
    const auto other = iteration ? in_b.find(*iteration) : in_b.end();
    if (other == in_b.end()) continue;
    ++found.common;
    found.values = compare_entries(entry, *other->second);
    if (!found.values.empty()) {
      found.different = iteration;
      break;
    }
    found.last_equal = iteration;
  }
  return found;
}

std::vector<CommonState> common_states(const fs::path& a, const fs::path& b, int parts) {
  const std::string suffix = parts > 1 ? ".0" : "";
  // The first of an iteration is the best one: later ones are of runs that were left behind.
  std::map<std::int64_t, fs::path> in_a;
  for (const SavedState& state : saved_states_in(a, suffix))
    in_a.emplace(state.iteration, state.path);
  std::map<std::int64_t, CommonState> found;
  for (const SavedState& state : saved_states_in(b, suffix))
    if (const auto other = in_a.find(state.iteration); other != in_a.end())
      found.try_emplace(state.iteration, CommonState{state.iteration, other->second, state.path});
  std::vector<CommonState> states;
  states.reserve(found.size());
  for (auto& [iteration, state] : found) states.push_back(std::move(state));
  return states;
}

}  // namespace tasuki::diff
