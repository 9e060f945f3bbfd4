// KindRecorder: collects late values and revisions of a step while its work is queued.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/recorder.hpp"
#include "training/recording/batch_kinds.hpp"

namespace tasuki {

class KindRecorder final : public Recorder {
 public:
  // The kind's numbers must exist and be filled for this step.
  KindRecorder(Device device, BatchKind& kind, bool is_recording)
      : device_(device), kind_(kind), is_recording_(is_recording) {}

  Device device() const override { return device_; }
  bool is_recording() const override { return is_recording_; }
  Tensor place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) override;
  void use(const std::shared_ptr<const detail::RevisionState>& revision) override;
  void refuse(std::string_view reason) override;

  // Why steps of this kind cannot be recorded; empty if they can, as far as is known.
  const std::string& refused() const { return refused_; }
  std::vector<RecordedStep::Dependency> take_dependencies() { return std::move(dependencies_); }

 private:
  Device device_;
  BatchKind& kind_;
  bool is_recording_;
  std::string refused_;
  std::vector<RecordedStep::Dependency> dependencies_;
};

}  // namespace tasuki
