// Which communicators a test can run with here, and fixtures of tests that run with each.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "communicator/registry.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki::testing {

// All registered ones that sum gradients on CPUs.
inline std::vector<std::string> summing_communicators() {
  std::vector<std::string> names;
  for (const CommunicatorKind& kind : communicator_kinds())
    if (kind.name != "dummy" && !kind.needs_gpu) names.push_back(kind.name);
  return names;
}

// Whether a communicator allows the ranks to be where they are. Collective.
inline bool is_possible_here(const std::string& name) {
  const auto placement = create_communicator("naive");
  if (name == "single_node") return placement->inter_size() == 1;
  if (name == "two_dimensional") return placement->topology().ranks_per_node() != 0;
  return true;
}

// Runs with the communicator that the parameter names, and is skipped where that is impossible.
class WithCommunicator : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_possible_here(GetParam()))
      GTEST_SKIP() << GetParam() << " does not allow this placement of ranks";
    communicator_ = create_communicator(GetParam());
    set_up();
  }
  virtual void set_up() {}

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }

  std::unique_ptr<Communicator> communicator_;
};

// With an optimizer whose updates are easy to foresee.
class WithOptimizer : public WithCommunicator {
 protected:
  void set_up() override {
    mean_ = static_cast<float>(size() + 1) / 2;
    optimizer_ = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *communicator_);
    optimizer_->set_exchange({.mode = ExchangeMode::overlapped, .range_bytes = 64});
    optimizer_->set("lr", 1);
    optimizer_->set("momentum", 0.5);
  }
  // This rank's number; the mean over ranks is mean_.
  float mine() const { return static_cast<float>(rank() + 1); }

  float mean_ = 0;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace tasuki::testing
