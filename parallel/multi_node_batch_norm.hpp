// Batch normalisation by the statistics of the global batch (ChainerMN's
// MultiNodeBatchNormalization), whatever the ranks' shares of it.
//
// A layer calls allreduce once in its forward pass, for 2 C + 1 float64 (sums of its values and of
// their squares, and how many they are), and once in its backward pass, for 2 C float32 (if the
// gradient of its input is needed). In its first step ranks also compare what they bring; later
// nothing but the sums travels. Evaluation sends nothing. Gradients of gamma and beta are sums
// over this rank's examples, as all gradients are until ranks exchange them.
//
// Every rank runs the same layers in the same order, in the forward and the backward pass of every
// step; ranks without examples run them on a batch of no items, for which Optimizer::forward calls
// the loss function. A step of which no rank has an example that counts is not run, so that running
// averages stay. Graphs that differ between ranks hang, and so does a loop that leaves
// out a pass on some ranks; the watchdog names those that are behind.
#pragma once

#include <cstddef>
#include <memory>

#include "communicator/communicator.hpp"
#include "nn/normalization.hpp"

namespace tasuki {

// A BatchNorm layer with the same parameters, buffers and paths, so that either loads the other's
// snapshots.
class MultiNodeBatchNorm : public BatchNorm {
 public:
  // `communicator` is used by nothing but such layers, because the model's is busy with gradients
  // during the backward pass: comm.split(0, comm.rank()). Layers of one model share it.
  MultiNodeBatchNorm(std::int64_t channels, std::shared_ptr<Communicator> communicator,
                     const Settings& settings = Settings());
};

// Makes all BatchNorm layers of `model` normalise like MultiNodeBatchNorm over the ranks of `comm`,
// through a new communicator that only they use. The layers keep their settings, parameters and
// buffers. Returns the number of layers. Collective (ChainerMN's create_mnbn_model makes a copy).
std::size_t convert_to_multi_node_batch_norm(Module& model, const Communicator& comm);

}  // namespace tasuki
