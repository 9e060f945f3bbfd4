// Layers whose weights are divided among the ranks that together hold a model.
//
// All of these ranks run the same passes on the same batch. Results that every rank has are equal
// on all of them, and so are the gradients of everything that is not divided (biases and
// normalisation after a sum, the inputs). Every rank computes the loss, which counts once. Initial
// weights are the same as in one process: each rank draws all of them and keeps its part.
//
// Give the layers the model's communicator, which must not be the one on which an optimizer
// exchanges gradients. On GPUs, channels pass through the host, and so do sums unless the
// communicator queues them; such steps are not recorded.
#pragma once

#include <cstdint>
#include <memory>

#include "communicator/communicator.hpp"
#include "nn/connection.hpp"
#include "nn/layer.hpp"
#include "parallel/sum_over_ranks.hpp"

namespace tasuki {

// Linear with its outputs divided (Megatron's column-parallel layer: Shoeybi et al., arXiv
// 1909.08053): each rank has W's rows, and b's elements, of its outputs, in the order of ranks
// (part_of). Takes N x n_in on every rank and returns N x own outputs. The backward pass sums the
// gradient of the input over the ranks: one allreduce of N x n_in.
class ColumnParallelLinear : public Layer {
 public:
  ColumnParallelLinear(std::int64_t n_in, std::int64_t n_out,
                       std::shared_ptr<Communicator> communicator, bool relu = false,
                       Initializer weights = initializers::lecun_normal());
  Variable forward(const Variable& x) override;

 private:
  bool communicates_itself() const override { return sum_->communicator().size() > 1; }

  std::shared_ptr<SumOverRanks> sum_;  // of gradients
  Parameter &w_, &b_;
  bool relu_;
};

// Linear with its inputs divided (row-parallel): each rank has W's columns of its inputs, and all
// of b. Takes N x own inputs, as a ColumnParallelLinear returns them, and returns N x n_out on
// every rank: the forward pass sums over the ranks, one allreduce of N x n_out. So a pair of both
// layers has one allreduce in each pass.
class RowParallelLinear : public Layer {
 public:
  RowParallelLinear(std::int64_t n_in, std::int64_t n_out,
                    std::shared_ptr<Communicator> communicator,
                    Initializer weights = initializers::lecun_normal());
  Variable forward(const Variable& x) override;

 private:
  bool communicates_itself() const override { return sum_->communicator().size() > 1; }

  std::shared_ptr<SumOverRanks> sum_;
  Parameter &w_, &b_;
};

// Conv2d with its output channels divided (ChainerMN's ParallelConvolution2D): each rank computes
// its channels of all images, and all ranks then get all channels. The backward pass takes a rank's
// channels of the gradient, and sums the input's gradient over the ranks.
class ParallelConv2d : public Layer {
 public:
  ParallelConv2d(std::int64_t channels_in, std::int64_t channels_out, std::int64_t kernel,
                 std::shared_ptr<Communicator> communicator, std::int64_t stride = 1,
                 std::int64_t pad = 0, bool bias = true,
                 Initializer weights = initializers::lecun_normal());
  // N x in x H x W to N x out x H' x W', both on every rank.
  Variable forward(const Variable& x) override;

 private:
  bool communicates_itself() const override { return sum_->communicator().size() > 1; }

  std::shared_ptr<SumOverRanks> sum_;  // of gradients
  Conv2dOptions options_{};
  Parameter& w_;
  Parameter* b_;
  std::int64_t channels_out_;
};

}  // namespace tasuki
