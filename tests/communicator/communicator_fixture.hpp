// Tests that run once for every communicator that the ranks' placement allows.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "communicator/registry.hpp"

namespace tasuki {

inline const std::vector<std::string>& real_communicators() {
  static const std::vector<std::string> names{
      "naive", "flat", "single_node", "hierarchical", "two_dimensional", "auto"};
  return names;
}

// Whether the kind can run here, by the rules of its documentation.
inline bool allows(const std::string& name, const Topology& topology) {
  if (name == "single_node") return topology.inter_size == 1;
  if (name == "two_dimensional") return topology.ranks_per_node() != 0;
  return true;
}

class EveryCommunicator : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto placement = create_communicator("naive");
    if (!allows(GetParam(), placement->topology()))
      GTEST_SKIP() << GetParam() << " does not allow this placement of ranks";
    comm_ = create_communicator(GetParam());
  }
  // Replaces the communicator by one that exchanges in small pieces.
  void make_with(const TransferSizes& sizes) {
    comm_ = create_communicator(GetParam(), {.sizes = sizes});
  }

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  // A vector in memory from the communicator, or in memory of this rank alone.
  Tensor allocated(std::int64_t count, DType dtype = DType::float32) {
    const auto bytes = static_cast<std::size_t>(count) * size_of(dtype);
    return {comm_->allocate(bytes), 0, {count}, dtype};
  }

  std::unique_ptr<Communicator> comm_;
};

inline std::string name_of_parameter(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

#define TASUKI_FOR_EVERY_COMMUNICATOR(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(Kinds, suite, ::testing::ValuesIn(::tasuki::real_communicators()), \
                           ::tasuki::name_of_parameter)

}  // namespace tasuki
