#include "tasuki/training/recording/recorded_steps.hpp"

#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"

namespace tasuki {
namespace {

// Steps of a key before one is recorded: of the first key, and of later ones, for which libraries
// have little left to prepare.
constexpr int first_warm_up = 3, later_warm_up = 1;

}  // namespace

RecordedSteps::RecordedSteps(GraphMode mode, Record record, Agree agree)
    : mode_(mode), record_(std::move(record)), agree_(std::move(agree)) {}

void RecordedSteps::refuse(const std::string& reason) {
  if (mode_ == GraphMode::off || !reason_.empty()) return;
  if (mode_ == GraphMode::on)
    fail(ErrorKind::config, "--graph on: steps cannot be recorded as a graph: {}", reason);
  reason_ = reason;
  steps_.clear();
  log_verbose("steps are not recorded as a graph: {}", reason);
}

void RecordedSteps::run(const Key& key, const Work& work, bool is_alike) {
  if (!records()) return work();
  if (!is_alike) {
    if (!std::exchange(has_met_unlike_, true))
      log_verbose("steps in which ranks have different numbers of examples are not recorded");
    return work();
  }
  Known& known = steps_[key];
  if (!known.recording) {
    const int warm_up = recordings_ == 0 ? first_warm_up : later_warm_up;
    if (known.runs++ < warm_up) return work();
    auto recording = try_to_record(work);
    if (!recording) return work();  // nothing is known of any step any more
    known.recording = std::move(recording);
    ++recordings_;
  }
  known.recording->replay();
}

std::unique_ptr<Recording> RecordedSteps::try_to_record(const Work& work) {
  std::string reason = "the device does not record";
  std::unique_ptr<Recording> recording;
  try {
    recording = record_(work);
  } catch (const Error& error) {
    reason = error.what();
  }
  const bool is_recorded = recording != nullptr;
  if (agree_ && !agree_(is_recorded) && is_recorded) {
    recording.reset();
    reason = "another rank could not record its part";
  }
  if (recording) return recording;
  refuse(reason);
  return nullptr;
}

}  // namespace tasuki
