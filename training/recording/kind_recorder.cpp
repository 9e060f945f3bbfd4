#include "training/recording/kind_recorder.hpp"

#include <algorithm>

namespace tasuki {

Tensor KindRecorder::place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) {
  NumberBlock::Found found = kind_.numbers->place(values, count);
  if (!found.values) {
    if (is_recording_) throw RecordingRefused("it uses more numbers than the steps before it");
    const auto bytes = count * static_cast<std::int64_t>(size_of(values->dtype()));
    kind_.numbers = kind_.numbers->grown(bytes);
    found = kind_.numbers->place(values, count);
    kind_.numbers->send();
  } else if (found.is_new && !is_recording_) {
    kind_.numbers->send_newest();
  }
  return found.values;
}

void KindRecorder::use(const std::shared_ptr<const detail::RevisionState>& revision) {
  if (std::ranges::find(dependencies_, revision, &RecordedStep::Dependency::revision) ==
      dependencies_.end())
    dependencies_.push_back({revision, revision->number});
}

void KindRecorder::refuse(std::string_view reason) {
  if (!is_recording_ && refused_.empty()) refused_ = reason;
}

}  // namespace tasuki
