#include "program/report/summary.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json.hpp"
#include "core/printable.hpp"
#include "program/start/rank_setup.hpp"
#include "tensor/backend.hpp"

namespace tasuki::program {

PeakMemory measure_peak(Communicator& communicator, const std::vector<Device>& devices) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::size_t of_device = 0;
  for (const Device device : devices)
    if (!device.is_cpu()) of_device = std::max(of_device, backend(device).memory(device).peak);
  const std::int64_t own[] = {usage.ru_maxrss * 1024,  // kilobytes on Linux
                              static_cast<std::int64_t>(of_device)};
  const Tensor peaks = Tensor::from(std::span<const std::int64_t>(own), {2});
  communicator.allreduce(peaks, ReduceOp::max);
  const auto largest = peaks.span<std::int64_t>();
  return {static_cast<std::size_t>(largest[0]), static_cast<std::size_t>(largest[1])};
}

namespace {

std::string describe_peak(Communicator& communicator, const std::vector<Device>& devices) {
  const PeakMemory peak = measure_peak(communicator, devices);
  const std::string on_device =
      std::ranges::all_of(devices, &Device::is_cpu)
          ? ""
          : fmt::format(" and {:.0f} MB of GPU memory", static_cast<double>(peak.device) / 1e6);
  return fmt::format("at most {:.0f} MB of memory{} per rank", static_cast<double>(peak.host) / 1e6,
                     on_device);
}

}  // namespace

std::string describe_epochs(std::vector<double> seconds) {
  if (seconds.empty()) return "";
  std::string text = fmt::format("epochs: {:.2f} s (first)", seconds.front());
  seconds.erase(seconds.begin());
  if (!seconds.empty()) {
    const auto middle = seconds.begin() + std::ssize(seconds) / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    double median = *middle;
    if (seconds.size() % 2 == 0) median = (median + *std::max_element(seconds.begin(), middle)) / 2;
    text += fmt::format(", {:.2f} s (median of the other {})", median, seconds.size());
  }
  return text;
}

// Reports the end of each epoch, observes nothing, and keeps what the summary says in saved states.
class RunSummary::EpochEnds final : public Extension {
 public:
  explicit EpochEnds(RunSummary& summary) : summary_(summary) {}
  std::string default_name() const override { return "RunSummary"; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  void initialize(Trainer&) override { summary_.begin(); }
  void run(Trainer& trainer) override { summary_.note_epoch(trainer.observation()); }
  void serialize(const Serializer& serializer) override { summary_.serialize(serializer); }

 private:
  RunSummary& summary_;
};

RunSummary::RunSummary(Trainer& trainer, std::vector<Device> devices)
    : trainer_(trainer), devices_(std::move(devices)) {
  trainer.extend(std::make_unique<EpochEnds>(*this));
}

void RunSummary::begin() {
  first_iteration_ = trainer_.updater().iteration();
  first_seconds_ = trainer_.elapsed_time();
  if (trainer_.updater().state().step == 0) epoch_began_at_ = first_seconds_;
}

void RunSummary::note_epoch(const Observation& seen) {
  const double now = trainer_.elapsed_time();
  if (epoch_began_at_) epoch_seconds_.push_back(now - *epoch_began_at_);
  epoch_began_at_ = now;
  if (const auto found = seen.mean("validation/main/accuracy"))
    accuracies_.push_back({*found, trainer_.updater().epoch()});
}

RunSummary::Part RunSummary::part() const {
  const std::int64_t steps = trainer_.updater().iteration() - first_iteration_;
  if (steps == 0) return before_;
  return {steps, trainer_.elapsed_time() - first_seconds_, epoch_seconds_, accuracies_,
          trainer_.updater().times()};
}

namespace {

// Reads what all ranks have loaded alike, so that all meet its errors.
void for_all_ranks(const std::function<void()>& read) try { read(); } catch (const Error& error) {
  throw Error(error.kind(), error.what(), ErrorScope::every_rank);
}

}  // namespace

void RunSummary::serialize(const Serializer& serializer) {
  Part now = serializer.is_loading() ? Part() : part();
  nlohmann::json accuracies = nlohmann::json::array();
  for (const Accuracy& each : now.accuracies) accuracies.push_back({each.value, each.epoch});
  std::string text = json_text(nlohmann::json{{"steps", now.steps},
                                              {"seconds", now.seconds},
                                              {"epochs", now.epochs},
                                              {"accuracies", accuracies}});
  serializer("part", text);
  const std::vector<Bytes> times =
      serializer.of_every_rank("times", std::as_bytes(std::span(now.times)));
  if (!serializer.is_loading()) return;
  for_all_ranks([&] { load(text); });
  const Communicator* const ranks = serializer.communicator();
  const auto rank = static_cast<std::size_t>(ranks ? ranks->rank() : 0);
  const auto size = static_cast<std::size_t>(ranks ? ranks->size() : 1);
  std::vector<RankTimes> decoded;
  for_all_ranks([&] {
    for (const Bytes& each : times) decoded.push_back(decode_step_times(each));
  });
  if (decoded.size() == size) before_.times = decoded[rank];
}

void RunSummary::load(const std::string& text) {
  constexpr std::size_t most_shown = 60;
  const std::string place = "the summary in the snapshot";
  try {
    const nlohmann::json found = parse_json(text, place);
    const auto refuse = [&](const char* expected, const nlohmann::json& value) {
      fail(ErrorKind::data, "{}: expected {}, found {}", place, expected,
           printable(json_text(value), most_shown));
    };
    const auto count = [&](const nlohmann::json& value) {
      const auto number = integer_in(value);
      if (!number || *number < 0) refuse("a number of steps or epochs", value);
      return *number;
    };
    const auto seconds = [&](const nlohmann::json& value) {
      if (!value.is_number() || !(value.get<double>() >= 0)) refuse("seconds from 0", value);
      return value.get<double>();
    };
    before_ = {};
    before_.steps = count(found.at("steps"));
    before_.seconds = seconds(found.at("seconds"));
    for (const auto& each : found.at("epochs")) before_.epochs.push_back(seconds(each));
    for (const auto& each : found.at("accuracies")) {
      const nlohmann::json& value = each.at(0);  // null: not finite
      before_.accuracies.push_back(
          {value.is_null() ? std::nan("") : value.get<double>(), count(each.at(1))});
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "{}: {}", place, error.what());
  }
}

RankTimes RunSummary::times() const {
  return part().times;
}

void RunSummary::print(Communicator& communicator, const std::filesystem::path& out) const {
  const std::string peak = describe_peak(communicator, devices_);
  const Part done = part();
  std::string text = fmt::format(
      "{} steps in {:.1f} s ({:.1f} per second), {}; results in {}\n", done.steps, done.seconds,
      static_cast<double>(done.steps) / std::max(done.seconds, 1e-9), peak, out.string());
  if (!done.epochs.empty()) text += describe_epochs(done.epochs) + '\n';
  if (!done.accuracies.empty()) {
    const Accuracy best = *std::ranges::max_element(done.accuracies, {}, [](const Accuracy& each) {
      return std::isfinite(each.value) ? each.value : -std::numeric_limits<double>::infinity();
    });
    text += fmt::format("validation accuracy: {:.4f}; best: {:.4f} after epoch {}\n",
                        done.accuracies.back().value, best.value, best.epoch);
  }
  text += step_time_table(gather_step_times(done.times, &communicator));
  report_on_root(communicator, text);
}

}  // namespace tasuki::program
