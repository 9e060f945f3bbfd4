// The perceptron of models/mlp.hpp divided between two ranks, as in ChainerMN's model-parallel
// MNIST examples.
#pragma once

#include <cstdint>
#include <memory>

#include "communicator/communicator.hpp"
#include "parallel/multi_node_chain_list.hpp"

namespace tasuki {

// This rank's part, of two ranks: rank 0 has layer l1, the inputs and the scores; rank 1 has l2 and
// l3. Parameters have the same paths as in an MLP, and therefore the same initial weights.
std::unique_ptr<MultiNodeChainList> mlp_over_ranks(Communicator& communicator, std::int64_t n_in,
                                                   std::int64_t units, std::int64_t n_out);

// The same, but rank 1 has the scores: two stages of a Pipeline (pipeline.hpp).
std::unique_ptr<MultiNodeChainList> mlp_in_stages(Communicator& communicator, std::int64_t n_in,
                                                  std::int64_t units, std::int64_t n_out);

}  // namespace tasuki
