// Batch normalisation with the statistics of the global batch (ChainerMN's
// MultiNodeBatchNormalization), however it is divided among ranks.
//
// A layer calls allreduce once in its forward pass, for 2 C + 1 float64 (sums of its values and of
// their squares, and their number), and once in its backward pass, for 2 C float32 (if the gradient
// of its input is needed). In its first step, ranks also compare the types and numbers of their
// values; later, only the sums travel. Evaluation sends nothing. Gradients of gamma and beta are
// sums over this rank's examples, as all gradients are until ranks exchange them.
//
// Every rank must run the same layers in the same order, in the forward and the backward pass of
// every step. Ranks without examples run them on an empty batch, for which Optimizer::forward calls
// the loss function. A step in which no rank has an example that counts is not run, so that running
// averages do not change. The job hangs if graphs differ between ranks, or if a loop leaves out a
// pass on some ranks; the watchdog then names the ranks that are behind.
#pragma once

#include <cstddef>
#include <memory>

#include "communicator/communicator.hpp"
#include "nn/normalization.hpp"

namespace tasuki {

// Has the parameters, buffers and paths of a BatchNorm layer, so that each loads the other's
// snapshots.
class MultiNodeBatchNorm : public BatchNorm {
 public:
  // `communicator` must be used by such layers only, because the model's own communicator is busy
  // with gradients during the backward pass: comm.split(0, comm.rank()). Layers of one model share
  // it.
  MultiNodeBatchNorm(std::int64_t channels, std::shared_ptr<Communicator> communicator,
                     const Settings& settings = Settings());
};

// Makes all BatchNorm layers of `model` normalise like MultiNodeBatchNorm over the ranks of `comm`,
// through a new communicator that only they use. The layers keep their settings, parameters and
// buffers (ChainerMN's create_mnbn_model makes a copy). Returns the number of layers. Collective.
std::size_t convert_to_multi_node_batch_norm(Module& model, const Communicator& comm);

}  // namespace tasuki
