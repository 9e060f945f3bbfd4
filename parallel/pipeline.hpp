// Pipeline: the ranks of a model that is divided into stages compute at the same time, on parts of
// a batch (micro-batches).
//
// The order of passes is one forward, one backward (1F1B; Narayanan et al. 2021, "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", arXiv 2104.04473, section
// 2.2.1; PipeDream-Flush). With S stages and M micro-batches of equal cost, a step takes
// (M + S - 1) / (M S) of the time in which the stages compute one after another, without the
// messages: each stage waits for the time of S - 1 micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/range.hpp"
#include "parallel/multi_node_chain_list.hpp"

namespace tasuki {

// A forward or backward pass of a micro-batch.
struct PipelinePass {
  std::int64_t micro_batch = 0;
  bool is_backward = false;
  friend bool operator==(const PipelinePass&, const PipelinePass&) = default;
};

// The passes of a stage, 0 to stages - 1, in 1F1B order: min(stages - stage - 1, micro_batches)
// forward passes, then one forward and one backward pass by turns, then the other backward passes.
// Both kinds come in the order of micro-batches, of which at most stages - stage have had their
// forward and not yet their backward pass.
std::vector<PipelinePass> one_forward_one_backward(int stage, int stages,
                                                   std::int64_t micro_batches);

// Runs the steps of a MultiNodeChainList whose components lie in a line, one on each rank. Rank r
// is stage r: it receives from rank r - 1 and sends to rank r + 1; rank 0 takes the model's inputs,
// and the last rank computes the loss. All ranks see the same batch.
//
//   Pipeline pipeline(model, 8);
//   const auto part = [&](std::int64_t i) { return pipeline.part(x.shape()[0], i); };
//   StepScope step;
//   pipeline.run(
//       [&](std::int64_t i) {
//         return optimizer.forward([&] { return loss_of(part(i)); }, part(i).size(), true);
//       },
//       [&](std::int64_t i, const Variable& loss) { optimizer.backward(loss, part(i).size()); });
//   optimizer.update(optimizer.exchange());
//   step.succeeded();
//
// Here loss_of() calls the model with the examples of a part. It returns the mean loss of the part
// on the last rank, and on the others what the model returns, a delegate variable.
//
// The optimizer weights each part by its examples, so that the gradient is that of the whole batch
// except for rounding; the mean loss of the batch is the mean of the parts' losses, weighted in the
// same way. Batch normalisation uses the statistics of each part, and updates its running averages
// M times, as in a step of several batches (--accumulate). Components may recompute blocks
// (nn/recompute.hpp).
//
// Several models may train data-parallel, each with a chain on a communicator of its own and the
// same number of micro-batches; forward(..., true) lets models without examples take part.
class Pipeline {
 public:
  // Errors of kind usage, on all ranks: components that do not lie in a line; a number of
  // micro-batches below 1 or not the same on all ranks. The chain must outlive the pipeline and
  // have all its components. Collective.
  Pipeline(MultiNodeChainList& chain, std::int64_t micro_batches);

  std::int64_t micro_batches() const { return micro_batches_; }
  int stages() const;
  int stage() const;
  // The examples of micro-batch `i`: sizes differ by at most one, and some parts are empty if there
  // are fewer examples than micro-batches. Empty parts have their passes, too.
  Range part(std::int64_t examples, std::int64_t i) const {
    return part_of(examples, micro_batches_, i);
  }

  // Calls the chain once for a micro-batch; returns the loss or the delegate variable.
  using Forward = std::function<Variable(std::int64_t micro_batch)>;
  // Runs the backward pass from what `forward` returned, which this call then owns alone.
  using Backward = std::function<void(std::int64_t micro_batch, const Variable& loss)>;
  // Runs the passes of a step. This rank sends without waiting for the receivers, so that it never
  // waits for a rank that waits for it. After an exception it leaves the chain's communicator
  // (communicator/leave.hpp), and ranks that wait for it throw an error, too. Collective.
  void run(const Forward& forward, const Backward& backward);

 private:
  MultiNodeChainList& chain_;
  std::int64_t micro_batches_;
};

}  // namespace tasuki
