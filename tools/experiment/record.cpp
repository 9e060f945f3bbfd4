#include "tools/experiment/record.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/json.hpp"
#include "core/own_file.hpp"
#include "program/largest_batch.hpp"
#include "tools/processes/error_line.hpp"

namespace tasuki::experiment {
namespace {

using nlohmann::json;

std::string folder_name(const ExperimentPlan& plan, const RunSettings& run) {
  std::string identity = std::filesystem::path(plan.program).filename().string() + '\n' +
                         (run.nodes > 1 ? plan.launcher_nodes : plan.launcher);
  if (!plan.hostfile.empty()) identity += '\n' + plan.hostfile;
  for (const auto& [name, value] : run.values) identity += fmt::format("\n{}={}", name, value);
  return fmt::format("np{}-nodes{}-{:016x}-r{}", run.np, run.nodes, hash_text(identity),
                     run.repeat);
}

std::optional<double> number(const json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// 0 if it is not a number.
std::int64_t whole_number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? 0 : integer_in(*found).value_or(0);
}

void put(json& object, const char* key, std::optional<double> value) {
  if (value) object[key] = *value;
}

json to_json(const RunResult& result) {
  json object = {{"seconds", result.seconds},
                 {"wall_seconds", result.wall_seconds},
                 {"epochs", result.epochs},
                 {"iterations", result.iterations}};
  put(object, "loss", result.loss);
  put(object, "accuracy", result.accuracy);
  put(object, "first_epoch_seconds", result.first_epoch_seconds);
  put(object, "epoch_seconds", result.epoch_seconds);
  put(object, "step_seconds", result.step_seconds);
  return object;
}

json to_json(const RunOrigin& origin) {
  json object = {{"version", origin.version}, {"host", origin.host},
                 {"machine", origin.machine}, {"gpu", origin.gpu},
                 {"data", origin.data},       {"oversubscribed", origin.oversubscribed}};
  put(object, "global_batch", origin.global_batch);
  return object;
}

RunOrigin origin_from_json(const json& object) {
  return {object.at("version"),
          object.at("host"),
          object.at("machine"),
          object.at("gpu"),
          object.at("data"),
          number(object, "global_batch"),
          object.value("oversubscribed", false)};
}

RunResult result_from_json(const json& object) {
  RunResult result;
  result.seconds = object.at("seconds");
  result.wall_seconds = object.at("wall_seconds");
  result.epochs = whole_number(object, "epochs");
  result.iterations = whole_number(object, "iterations");
  result.loss = number(object, "loss");
  result.accuracy = number(object, "accuracy");
  result.first_epoch_seconds = number(object, "first_epoch_seconds");
  result.epoch_seconds = number(object, "epoch_seconds");
  result.step_seconds = number(object, "step_seconds");
  return result;
}

// An unreadable record counts as missing: the run is done again.
void take_over(RunRecord& record) {
  const auto file = record.folder / "run.json";
  const auto text = read_file_if_there(file);
  if (!text) return;
  const auto is_unreadable = [&record] {
    record.result.reset();
    record.failure = "its run.json cannot be read";
  };
  try {
    const json object = parse_json(*text, file.string());
    if (object.contains("result")) record.result = result_from_json(object["result"]);
    if (object.contains("origin")) record.origin = origin_from_json(object["origin"]);
    if (object.contains("failure")) record.failure = object["failure"];
  } catch (const json::exception&) {
    is_unreadable();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    is_unreadable();
  }
}

// Seconds of each epoch, from entries that end one.
std::vector<double> epoch_times(const json& log) {
  std::vector<double> times;
  double before = 0;
  std::int64_t epoch = 0;
  for (const json& entry : log) {
    const auto now = number(entry, "elapsed_time");
    const std::int64_t its_epoch = whole_number(entry, "epoch");
    if (!now || its_epoch == epoch) continue;
    epoch = its_epoch;
    times.push_back(*now - before);
    before = *now;
  }
  return times;
}

// Seconds per step between entries of the log in the same epoch.
std::vector<double> step_times(const json& log) {
  std::vector<double> times;
  for (std::size_t i = 1; i < log.size(); ++i) {
    const auto before = number(log[i - 1], "elapsed_time"), now = number(log[i], "elapsed_time");
    const auto first = number(log[i - 1], "iteration"), last = number(log[i], "iteration");
    const bool is_one_epoch = number(log[i - 1], "epoch") == number(log[i], "epoch");
    if (before && now && first && last && is_one_epoch &&
        *first >= static_cast<double>(warm_up_steps) && *last > *first)
      times.push_back((*now - *before) / (*last - *first));
  }
  return times;
}

std::optional<double> upper_median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string quoted_for_csv(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

}  // namespace

std::vector<RunRecord> read_records(const ExperimentPlan& plan,
                                    const std::filesystem::path& folder) {
  std::vector<RunRecord> records;
  for (const RunSettings& run : plan.runs()) {
    RunRecord record;
    record.settings = run;
    record.folder = folder / "runs" / folder_name(plan, run);
    record.command = plan.command(run, record.folder / "result");
    take_over(record);
    records.push_back(std::move(record));
  }
  return records;
}

void write_record(const RunRecord& record) {
  std::string command;
  for (const std::string& word : record.command) command += (command.empty() ? "" : " ") + word;
  json settings = json::object();
  for (const auto& [name, value] : record.settings.values) settings[name] = value;
  json object = {{"command", command}, {"settings", settings}, {"repeat", record.settings.repeat}};
  if (record.result) object["result"] = to_json(*record.result);
  if (record.origin) object["origin"] = to_json(*record.origin);
  if (!record.failure.empty()) object["failure"] = record.failure;
  write_file(record.folder / "run.json", json_text(object, 2) + '\n');
}

void forget_record(RunRecord& record) {
  std::error_code ignored;  // there may be none
  std::filesystem::rename(record.folder / "run.json", record.folder / "run.previous.json", ignored);
  record.result.reset();
  record.origin.reset();
  record.failure.clear();
}

std::string csv_text(const ExperimentPlan& plan, const std::vector<RunRecord>& runs) {
  std::string text;
  for (const GridAxis& axis : plan.axes) text += axis.name + ',';
  text +=
      "repeat,seconds,wall_seconds,first_epoch_seconds,epoch_seconds,step_seconds,epochs,"
      "iterations,loss,accuracy,failure,version,host,machine,gpu,data,oversubscribed\n";
  const auto number = [](std::optional<double> value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : "";
  };
  for (const RunRecord& run : runs) {
    for (const GridAxis& axis : plan.axes)
      text += quoted_for_csv(run.settings.value(axis.name)) + ',';
    text += fmt::format("{},", run.settings.repeat);
    if (const auto& result = run.result)
      text += fmt::format("{},{},{},{},{},{},{},{},{},", result->seconds, result->wall_seconds,
                          number(result->first_epoch_seconds, 6), number(result->epoch_seconds, 6),
                          number(result->step_seconds, 6), result->epochs, result->iterations,
                          number(result->loss, 9), number(result->accuracy, 9));
    else
      text += ",,,,,,,,,";
    text += quoted_for_csv(run.result ? "" : run.failure);
    const RunOrigin origin = run.origin.value_or(RunOrigin{});
    for (const std::string& each :
         {origin.version, origin.host, origin.machine, origin.gpu, origin.data})
      text += ',' + quoted_for_csv(each);
    text += origin.oversubscribed ? ",1\n" : ",0\n";
  }
  return text;
}

RunResult read_training_log(const std::filesystem::path& file) {
  const json log = parse_json(read_own_file(file, own_log_limit), file.string(), limits_of_logs);
  if (!log.is_array() || log.empty() || !number(log.back(), "elapsed_time"))
    fail(ErrorKind::data, "{} has no entry with an elapsed_time", file.string());
  const json& last = log.back();
  RunResult result;
  result.seconds = *number(last, "elapsed_time");
  result.epochs = whole_number(last, "epoch");
  result.iterations = whole_number(last, "iteration");
  result.loss = number(last, "validation/main/loss");
  result.accuracy = number(last, "validation/main/accuracy");
  std::vector<double> epochs = epoch_times(log);
  if (!epochs.empty()) {
    result.first_epoch_seconds = epochs.front();
    epochs.erase(epochs.begin());
  }
  result.epoch_seconds = upper_median(std::move(epochs));
  result.step_seconds = upper_median(step_times(log));
  return result;
}

namespace {

using processes::EndedProcess;
using processes::is_error_line;
using processes::last_words;

constexpr const char* out_of_memory = "out of memory";
constexpr const char* killed = "killed (out of memory?)";

bool says(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

// Killed by SIGKILL: the program, or a rank that mpirun names.
bool was_killed(const EndedProcess& ended, std::string_view output) {
  return ended.exit_code == 128 + SIGKILL || says(output, "exited on signal 9");
}

}  // namespace

std::string describe_failure(const EndedProcess& ended, double timeout, std::string_view output) {
  if (ended.how == processes::HowEnded::timed_out)
    return fmt::format("not finished after {} s", timeout);
  if (ended.exit_code == 0) return "";
  const std::string words = last_words(output);
  std::string text = fmt::format("exit code {}: {}", ended.exit_code, words);
  if (is_error_line(words) && (says(words, out_of_memory) || says(words, "std::bad_alloc")))
    return fmt::format("{}, {}", out_of_memory, text);
  if (!is_error_line(words) && was_killed(ended, output))
    return fmt::format("{}, {}", killed, text);
  return text;
}

std::string failure_mark(std::string_view failure) {
  if (failure.starts_with(killed)) return killed;
  if (!failure.starts_with(out_of_memory)) return "failed";
  const auto advice = failure.find(program::advice_on_batch);
  if (advice == failure.npos) return out_of_memory;
  const std::string_view batch = failure.substr(advice + program::advice_on_batch.size());
  return fmt::format("{} ({} a rank fits)", out_of_memory,
                     batch.substr(0, batch.find_first_not_of("0123456789")));
}

}  // namespace tasuki::experiment
