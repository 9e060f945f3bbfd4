#include "tools/simulate/traced_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/printable.hpp"
#include "tensor/step_clock.hpp"

namespace tasuki::simulate {
namespace {

using nlohmann::json;

constexpr std::size_t least_steps = 4;

[[noreturn]] void refuse(const json& value, const char* expected, const std::string& file) {
  fail(ErrorKind::data, "{}: expected {}, found {}", file, expected,
       quoted_input(json_text(value)));
}

// Seconds from microseconds.
double seconds_in(const json& value, const std::string& file) {
  constexpr double most = 1e15;  // thirty years
  if (!value.is_number() || !(std::abs(value.get<double>()) < most))
    refuse(value, "the time of an event in microseconds", file);
  return value.get<double>() * 1e-6;
}

// Numbers of ranks, rows, ranges and bytes; -1: none.
std::int64_t number_in(const json& value, const std::string& file) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  const auto number = integer_in(value, -1, most);
  if (!number) refuse(value, "a number of an event", file);
  return *number;
}

// The events of one rank, ordered by their beginning.
struct Event {
  std::string name;
  double begin = 0, end = 0;
  std::int64_t number = -1, bytes = -1;
  int thread = 0;
};

std::map<int, std::vector<Event>> events_of_ranks(const json& trace, const std::string& file) {
  std::map<int, std::vector<Event>> all;
  for (const json& found : trace.at("traceEvents")) {
    if (!found.contains("ts")) continue;  // names of rows
    Event event{.name = found.at("name"),
                .begin = seconds_in(found.at("ts"), file),
                .thread = static_cast<int>(number_in(found.value("tid", json(0)), file))};
    event.end = event.begin + seconds_in(found.value("dur", json(0.0)), file);
    if (found.contains("args")) {
      event.number = number_in(found.at("args").at("number"), file);
      event.bytes = number_in(found.at("args").at("bytes"), file);
    }
    all[static_cast<int>(number_in(found.at("pid"), file))].push_back(std::move(event));
  }
  for (auto& [rank, events] : all) std::ranges::stable_sort(events, {}, &Event::begin);
  return all;
}

TracedRange& range_of(TracedStep& step, const Event& event) {
  for (TracedRange& range : step.ranges)
    if (range.first == event.number) return range;
  step.ranges.push_back({.first = event.number, .bytes = static_cast<double>(event.bytes)});
  return step.ranges.back();
}

void add_block(TracedStep& step, const Event& event) {
  TracedBlock& block = step.blocks[event.number];
  block.bytes = std::max(block.bytes, static_cast<double>(event.bytes));
  block.seconds += event.end - event.begin;
  block.is_recomputed = event.name == "block again";
}

void add_pass(TracedStep& step, const Event& event) {
  ++step.passes;
  step.examples += std::max<std::int64_t>(event.number, 0);
  step.activations = std::max(step.activations, static_cast<double>(event.bytes));
}

// Of one rank, from otherData.
std::optional<TracedMemory> memory_in(const json& rank, const std::string& file) {
  if (!rank.contains("memory")) return {};
  const auto bytes = [&](const char* key) {
    return static_cast<double>(number_in(rank.at("memory").at(key), file));
  };
  return TracedMemory{.weights = bytes("weights"),
                      .rounded = bytes("rounded"),
                      .gradients = bytes("gradients"),
                      .all_gradients = bytes("all_gradients"),
                      .slots = bytes("slots"),
                      .states = bytes("states"),
                      .all_states = bytes("all_states"),
                      .step = bytes("step"),
                      .process = bytes("process")};
}

bool computes_in_threads(const std::vector<Event>& events) {
  std::set<int> threads;
  for (const Event& event : events)
    if (event.name == "activations") threads.insert(event.thread);
  return threads.size() > 1;
}

bool is_part(const std::string& name) {
  return std::ranges::find(step_part_names, name) != step_part_names.end();
}

// Steps begin with their input and end with their update; those cut off at either end are left out.
// In a process with several clocks (ParallelUpdater's workers) only the first counts.
std::vector<TracedStep> steps_of(const std::vector<Event>& events) {
  std::vector<TracedStep> steps;
  std::optional<TracedStep> step;
  std::optional<int> clock;
  for (const Event& event : events) {
    if (event.name == "input" && !clock) clock = event.thread;
    if (!step && event.name != "input") continue;
    if (is_part(event.name) && event.thread != clock) continue;
    if (!step) step = TracedStep{.begin = event.begin};
    const double seconds = event.end - event.begin;
    if (event.name == "input") step->input += seconds;
    if (event.name == "forward") step->forward += seconds;
    if (event.name == "exchange") step->exchange += seconds;
    if (event.name == "backward") {
      step->backward += seconds;
      step->backward_begin = event.begin;
    }
    if (event.name == "block" || event.name == "block again") add_block(*step, event);
    if (event.name == "activations") add_pass(*step, event);
    if (event.name == "complete") range_of(*step, event).ready = event.begin;
    if (event.name == "sum of a range") {
      TracedRange& range = range_of(*step, event);
      range.begin = event.begin;
      range.end = event.end;
    }
    if (event.name != "update") continue;
    step->update = seconds;
    step->end = event.end;
    if (std::ranges::all_of(step->ranges, [](const auto& range) { return range.begin >= 0; }))
      std::ranges::stable_sort(step->ranges, {}, &TracedRange::begin);
    if (step->forward > 0) steps.push_back(*step);
    step.reset();
  }
  return steps;
}

}  // namespace

TracedRun parse_trace(std::string_view text, const std::string& file) {
  TracedRun run{.file = file};
  try {
    const json trace = parse_json(
        text,
        fmt::format("{}: expected a file that a training program has written with --trace, "
                    "but its text",
                    file),
        limits_of_logs);
    const json& about = trace.at("otherData");
    // Ranges and updates of several optimizers would look like one optimizer's.
    if (const std::int64_t optimizers = number_in(about.value("optimizers", json(1)), file);
        optimizers > 1)
      fail(ErrorKind::data, "{}: expected a run with one optimizer, found {}", file, optimizers);
    run.exchange = about.value("exchange", "");
    std::set<std::string> hosts;
    for (const json& rank : about.at("ranks")) {
      hosts.insert(rank.at("host"));
      if (const auto memory = memory_in(rank, file)) run.memory.push_back(*memory);
    }
    run.hosts = static_cast<int>(hosts.size());
    for (const auto& [rank, events] : events_of_ranks(trace, file)) {
      run.steps.push_back(steps_of(events));
      run.computes_in_threads = run.computes_in_threads || computes_in_threads(events);
    }
  } catch (const json::exception& error) {
    fail(ErrorKind::data,
         "{}: expected a file that a training program has written with --trace: {}", file,
         error.what());
  }
  std::size_t count = run.steps.empty() ? 0 : run.steps.front().size();
  for (const auto& steps : run.steps) count = std::min(count, steps.size());
  if (count < least_steps)
    fail(ErrorKind::data,
         "{}: expected at least {} steps of CPUs, found {}; trace a run with more "
         "--max-iterations and --trace-steps",
         file, least_steps, count);
  for (auto& steps : run.steps) {
    const auto end = steps.begin() + static_cast<std::ptrdiff_t>(count);
    steps = {steps.begin() + static_cast<std::ptrdiff_t>(count / 2), end};
  }
  return run;
}

}  // namespace tasuki::simulate
