// What tests of training on the guarded device (guarded_device/guarded_device.hpp) share: runs
// there, and what they leave to be compared.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "communicator/registry.hpp"
#include "core/json.hpp"
#include "small_run.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {

inline const bool is_registered = [] {
  register_guarded_device();
  return true;
}();

inline SmallRun::Options on_device(GraphMode graph = GraphMode::off, bool is_resident = true) {
  SmallRun::Options options;
  options.device = Device::cuda(0);
  options.graph = graph;
  options.is_resident = is_resident;
  return options;
}

// Steps through the host (MPI) cannot be recorded.
inline GraphMode graph_of(const Communicator& comm) {
  return comm.size() == 1 ? GraphMode::on : GraphMode::automatic;
}

inline std::string log_without_times(const SmallRun& run) {
  auto entries = run.log->entries();
  for (auto& entry : entries) entry.erase("elapsed_time");
  return json_text(entries, 1);
}

inline std::vector<float> weights(const SmallRun& run) {
  const Tensor host = run.optimizer->arena().values().to(Device::cpu());
  const auto values = host.span<float>();
  return {values.begin(), values.end()};
}

class DeviceTraining : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(is_registered); }
  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

}  // namespace tasuki::testing
