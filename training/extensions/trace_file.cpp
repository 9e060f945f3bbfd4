#include "training/extensions/trace_file.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "core/environment.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "core/trace.hpp"
#include "core/version.hpp"
#include "optimizer/gradient_slots.hpp"
#include "optimizer/range_exchange.hpp"
#include "tensor/storage.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// By how many seconds rank 0's clock is ahead of this rank's, at a time by this rank's clock.
struct Offset {
  double at = 0, seconds = 0, error = 0;
};

double number_in(const Bytes& bytes) {
  double number = 0;
  TASUKI_CHECK(bytes.size() == sizeof number, "a time of {} bytes", bytes.size());
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// Cristian's algorithm: rank 0 answers with its time, which is assumed to be the time in the middle
// between question and answer. Of several questions the one with the fastest answer counts.
Offset compare_clocks(Communicator& communicator) {
  constexpr int questions = 16, tag = 0;
  const auto send = [&](double number, int peer) {
    send_bytes(communicator, std::as_bytes(std::span(&number, 1)), peer, tag);
  };
  Offset best{.error = std::numeric_limits<double>::infinity()};
  if (communicator.rank() != 0) {
    for (int i = 0; i < questions; ++i) {
      const double asked = trace_clock();
      send(asked, 0);
      const double answer = number_in(recv_bytes(communicator, 0, tag));
      const double answered = trace_clock(), error = (answered - asked) / 2;
      if (error >= best.error) continue;
      best = {.at = asked, .seconds = answer - (asked + answered) / 2, .error = error};
    }
    return best;
  }
  const Offset own{.at = trace_clock()};
  for (int peer = 1; peer < communicator.size(); ++peer) {
    for (int i = 0; i < questions; ++i) {
      (void)recv_bytes(communicator, peer, tag);
      send(trace_clock(), peer);
    }
  }
  return own;
}

constexpr std::array row_names = {"phases", "waits", "gradients", "exchange", "step", "blocks"};
constexpr int most_lanes = 1000;

int thread_of(const TraceEvent& event) {
  return static_cast<int>(event.row) * most_lanes + event.lane;
}

// One rank's part of the file.
class RankText {
 public:
  // Times count from `start` on rank 0's clock.
  RankText(int rank, double start, Offset before, Offset after)
      : rank_(rank), start_(start), before_(before), after_(after) {}

  std::string of(const std::vector<TraceEvent>& events) {
    add("process_name", 0, fmt::format("rank {} ({})", rank_, host_name()));
    text_ += fmt::format(R"(,
{{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
                         rank_, rank_);
    std::vector<int> threads;
    for (const TraceEvent& event : events) {
      const int thread = thread_of(event);
      if (std::ranges::find(threads, thread) != threads.end()) continue;
      threads.push_back(thread);
      const std::string row = row_names.at(static_cast<std::size_t>(event.row));
      add("thread_name", thread, event.lane == 0 ? row : fmt::format("{} {}", row, event.lane));
    }
    for (const TraceEvent& event : events) add(event);
    return std::move(text_);
  }

 private:
  double corrected(double time) const {
    const double span = after_.at - before_.at;
    const double share = span > 0 ? (time - before_.at) / span : 0;
    const double offset = before_.seconds + share * (after_.seconds - before_.seconds);
    return 1e6 * (time + offset - start_);
  }

  void add(const char* what, int thread, const std::string& name) {
    text_ +=
        fmt::format(R"({}
{{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})",
                    text_.empty() ? "" : ",", what, rank_, thread, json_text(nlohmann::json(name)));
  }

  void add(const TraceEvent& event) {
    const double begin = corrected(event.begin), end = corrected(event.end);
    text_ += fmt::format(",\n{{\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f}", event.name,
                         rank_, thread_of(event), begin);
    text_ += event.end > event.begin ? fmt::format(R"(,"ph":"X","dur":{:.3f})", end - begin)
                                     : R"(,"ph":"i","s":"t")";
    if (event.number >= 0 || event.bytes >= 0)
      text_ += fmt::format(R"(,"args":{{"number":{},"bytes":{}}})", event.number, event.bytes);
    text_ += '}';
  }

  int rank_;
  double start_;
  Offset before_, after_;
  std::string text_;
};

// Of this process, whose pool has just ended a step.
nlohmann::json memory_of(const NamedOptimizers& optimizers) {
  std::size_t weights = 0, rounded = 0, gradients = 0, all_gradients = 0, slots = 0, states = 0,
              all_states = 0;
  for (const NamedOptimizer& each : optimizers) {
    const ParameterArena& arena = each.optimizer->arena();
    weights += arena.values().bytes();
    if (arena.rounded()) rounded += arena.rounded().bytes();
    all_gradients += arena.gradients().bytes() * arena.gradient_arrays();
    gradients += each.optimizer->gradient_bytes();
    const auto ranges = slot_ranges(arena.entries(), arena.gradients().count(),
                                    each.optimizer->step_exchange().settings());
    slots += static_cast<std::size_t>(GradientSlots::elements_for(ranges)) * sizeof(float);
    states += each.optimizer->states().bytes();
    all_states += arena.values().bytes() * each.optimizer->states().names().size();
  }
  const std::size_t in_use = host_pool_statistics().in_use, peak = host_pool_peak();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {{"weights", weights},
          {"rounded", rounded},
          {"gradients", gradients},
          {"all_gradients", all_gradients},
          {"slots", slots},
          {"states", states},
          {"all_states", all_states},
          {"step", peak - std::min(in_use, peak)},
          {"process", usage.ru_maxrss * 1024}};  // kilobytes on Linux
}

bool is_on_cpu(const NamedOptimizers& optimizers) {
  return std::ranges::all_of(optimizers, [](const NamedOptimizer& each) {
    return each.optimizer->arena().values().device().is_cpu();
  });
}

class TraceFile final : public Extension {
 public:
  explicit TraceFile(TraceSettings settings) : settings_(std::move(settings)) {
    TASUKI_CHECK(settings_.skipped >= 0 && settings_.steps > 0, "a trace of {} steps after {}",
                 settings_.steps, settings_.skipped);
    settings_.file = present_folder() / settings_.file;
  }

  std::string default_name() const override { return "TraceFile"; }
  // Other extensions of the last iteration are recorded; those before the first are not.
  int priority() const override { return priority_snapshot - 1; }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }

  void initialize(Trainer& trainer) override {
    is_wanted_ = !trainer.is_over();
    if (!is_wanted_) return;
    first_ = trainer.updater().iteration() + settings_.skipped;
    on_root(trainer, [&] {
      make_output_folder(std::filesystem::absolute(settings_.file).parent_path());
      write_named_file(settings_.file, "");
    });
    if (settings_.skipped == 0) begin(trainer);
  }

  void run(Trainer& trainer) override {
    const std::int64_t iteration = trainer.updater().iteration();
    if (begun_ && iteration == first_ + settings_.steps) return write(trainer);
    if (!has_written_ && !begun_ && iteration == first_) begin(trainer);
  }

  void finalize(Trainer& trainer) override {
    if (begun_) write(trainer);
    if (is_wanted_ && !has_written_ && rank(trainer) == 0)
      log_warning("{} is empty: the run had no more than the {} steps that are not recorded",
                  settings_.file.string(), settings_.skipped);
  }

  void on_error(Trainer& /*trainer*/) override {
    if (begun_) (void)end_trace();
  }

 private:
  // Work of rank 0, whose error is one on all ranks.
  static void on_root(Trainer& trainer, const std::function<void()>& work) {
    if (Communicator* const communicator = trainer.communicator())
      run_on_root(*communicator, 0, [&] {
        work();
        return Bytes{};
      });
    else
      work();
  }

  static int rank(const Trainer& trainer) {
    const Communicator* const communicator = trainer.communicator();
    return communicator != nullptr ? communicator->rank() : 0;
  }

  static Offset offset(Trainer& trainer) {
    Communicator* const communicator = trainer.communicator();
    return communicator != nullptr ? compare_clocks(*communicator) : Offset{.at = trace_clock()};
  }

  void begin(Trainer& trainer) {
    before_ = offset(trainer);
    begun_ = true;
    reset_host_pool_peak();
    start_trace();
  }

  void write(Trainer& trainer) {
    const std::vector<TraceEvent> events = end_trace();
    begun_ = false;
    has_written_ = true;
    const Offset after = offset(trainer);
    Communicator* const communicator = trainer.communicator();
    std::string text = RankText(rank(trainer), start(trainer), before_, after).of(events);
    nlohmann::json own = {{"host", host_name()},
                          {"correction_us", after.seconds * 1e6},
                          {"error_us", after.error * 1e6}};
    if (const NamedOptimizers optimizers = trainer.updater().optimizers(); is_on_cpu(optimizers))
      own["memory"] = memory_of(optimizers);
    std::vector<std::string> texts = {std::move(text)};
    std::vector<nlohmann::json> ranks = {std::move(own)};
    if (communicator != nullptr) {
      ranks = gather_object(*communicator, ranks[0]);
      const auto parts = gather_bytes(*communicator, std::as_bytes(std::span(texts[0])));
      texts.clear();
      for (const Bytes& part : parts)
        texts.emplace_back(reinterpret_cast<const char*>(part.data()), part.size());
    }
    on_root(trainer, [&] { write_named_file(settings_.file, file_text(trainer, texts, ranks)); });
    log_info("{} steps of all ranks are in {}; https://ui.perfetto.dev opens it",
             trainer.updater().iteration() - first_, settings_.file.string());
  }

  // Rank 0's start is the zero of all times.
  double start(Trainer& trainer) const {
    const Tensor start = Tensor::full({}, before_.at, DType::float64);
    if (Communicator* const communicator = trainer.communicator()) communicator->bcast_data(start);
    return start.item();
  }

  std::string file_text(const Trainer& trainer, const std::vector<std::string>& texts,
                        const std::vector<nlohmann::json>& ranks) const {
    nlohmann::json about = {{"version", version()},
                            {"first_iteration", first_ + 1},
                            {"steps", trainer.updater().iteration() - first_},
                            {"optimizers", trainer.updater().optimizers().size()},
                            {"ranks", ranks}};
    for (const NamedOptimizer& each : trainer.updater().optimizers()) {
      const GradientExchange* const exchange = each.optimizer->step_exchange().gradient_exchange();
      if (exchange == nullptr) continue;
      about["exchange"] = name_of(exchange->mode());
      for (const Range& range : exchange->ranges())
        about["range_bytes"].push_back(range.size() * std::int64_t{sizeof(float)});
    }
    std::string all =
        R"({"displayTimeUnit":"ms","otherData":)" + json_text(about) + ",\"traceEvents\":[";
    for (std::size_t i = 0; i < texts.size(); ++i) all += (i == 0 ? "" : ",") + texts[i];
    return all + "\n]}\n";
  }

  TraceSettings settings_;
  std::int64_t first_ = 0;  // iterations before the recorded ones
  bool is_wanted_ = false;  // a run without steps leaves the file of the run before
  bool begun_ = false, has_written_ = false;
  Offset before_;
};

}  // namespace

std::unique_ptr<Extension> trace_file(TraceSettings settings) {
  return std::make_unique<TraceFile>(std::move(settings));
}

}  // namespace tasuki
