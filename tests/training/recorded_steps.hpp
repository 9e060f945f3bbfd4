// What tests of StepRunner share: steps on the guarded device (guarded_device/guarded_device.hpp)
// whose work only counts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/connection.hpp"
#include "tensor/recorder.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"
#include "training/recording/step_runner.hpp"

namespace tasuki::testing {

inline const Device device = [] {
  register_guarded_device();
  return Device::cuda(0);
}();

inline Tensor values(std::int64_t examples, float first = 0) {
  const Tensor x = Tensor::empty({examples, 2});
  for (float& value : x.span<float>()) value = first++;
  return x;
}

inline Batch batch_of(std::int64_t examples, float first = 0) {
  return {{{.name = "x", .values = values(examples, first)}},
          std::vector<std::int64_t>(static_cast<std::size_t>(examples), 1)};
}

inline bool is_recording() {
  return current_recorder() != nullptr && current_recorder()->is_recording();
}

// Steps of an evaluation whose work only counts.
class StepRunnerTest : public ::testing::Test {
 protected:
  StepRunnerTest() { model.to(device); }

  std::unique_ptr<StepRunner> make(GraphMode mode, std::size_t most = 16) {
    return std::make_unique<StepRunner>(
        model, StepRunner::Settings{.graph = mode, .most_recordings = most});
  }
  StepRunner::Work work = [this](const Batch& batch, Observation& seen) {
    ++(is_recording() ? recorded : done);
    if (is_recording() && !failure.empty()) fail(ErrorKind::unavailable, "{}", failure);
    // The first value of x, seen on the device.
    seen.add_sum("first", batch["x"].reshape({batch.size() * 2}).slice(0, 1).reshape({}), 1);
  };
  // Steps whose batches begin with 1, 2, ...; what they saw.
  double run(StepRunner& runner, std::int64_t examples, int times) {
    const auto before = guarded_device_counts();
    Observation seen;
    for (int i = 1; i <= times; ++i)
      runner.run(batch_of(examples, static_cast<float>(i)), seen, work, "");
    replays += guarded_device_counts().replays - before.replays;
    return seen.values().at("first").sum();
  }

  Linear model{2, 2};
  std::string failure;
  int done = 0, recorded = 0;
  std::int64_t replays = 0;
};

}  // namespace tasuki::testing
