// Recomputation (activation checkpointing): a block of a model keeps only its inputs for the
// backward pass, which runs the block's forward pass again (Chen et al. 2016, "Training deep nets
// with sublinear memory cost", arXiv 1604.06174; Chainer's forget()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "nn/variable.hpp"

namespace tasuki {

// A part of a forward pass. What it computes with gradients depends on its arguments and on
// parameters alone: a result of other functions that it captured would be an error.
using BlockFunction = std::function<std::vector<Variable>(const std::vector<Variable>& inputs)>;

// Calls `block`, which must stay valid until the backward pass, as must the parameters. Without a
// graph (NoGrad) nothing else happens. Otherwise results and gradients have the same bits as with a
// plain call, if the functions in the block have the same bits in each run, except
// that the gradient of an input that is used several times in the block, and elsewhere as well, is
// added in another order: random functions draw the same numbers again (RandomKeys must outlive the
// backward pass), and running statistics are updated once. Blocks may contain others. Functions in
// the block must not exchange messages with other ranks, which is a usage error, except
// synchronised batch normalisation, whose statistics are kept.
std::vector<Variable> recompute(const BlockFunction& block, const std::vector<Variable>& inputs);
Variable recompute(const std::function<Variable(const Variable&)>& block, const Variable& input);

// --- for layers ---

// Whether a block is run again. A layer with a state that a forward pass changes leaves it then.
bool is_recomputing();
// The value that `compute` returned in the first run of the block that is run again; otherwise
// compute(). For values that must not be computed twice, such as sums over ranks.
Tensor computed_once(const std::function<Tensor()>& compute);
// Called by functions that exchange messages: a usage error in a block that is recomputed.
void refuse_recomputing(const char* function);

// --- for models ---

// Which blocks of a model are recomputed. A model offers blocks (may_recompute), which are numbered
// in the order of its forward pass; programs choose among them (--recompute). While a trace is
// recorded (core/trace.hpp), each block computed with its graph on a CPU is an event: "block", or
// "block again" when it is recomputed, with its number and the bytes that it keeps beside its
// results.
class RecomputePlan {
 public:
  // none: keeps all blocks, and counts them. all: recomputes all. measured: recomputes all and
  // notes their costs, until keep_within().
  enum class Mode : std::uint8_t { none, all, measured };
  explicit RecomputePlan(Mode mode) : mode_(mode) {}

  // What a block costs: bytes that it keeps if it is not recomputed, and the seconds that
  // recomputing it takes.
  struct Cost {
    std::size_t bytes = 0;
    double seconds = 0;
  };
  // Of the last pass in a RecomputeScope that was followed by its backward pass; nothing for blocks
  // that it did not run again.
  std::vector<std::optional<Cost>> costs() const;
  // With Mode::measured, after a pass: from now on keeps blocks instead of recomputing them: those
  // that save most time for their bytes, so that no further one fits into `room` bytes. Returns the
  // bytes that are kept.
  std::size_t keep_within(std::size_t room);
  // Which of the blocks with these costs keep_within(room) would keep; none without a cost.
  static std::vector<bool> blocks_within(std::span<const std::optional<Cost>> costs,
                                         std::size_t room);

  bool recomputes(std::size_t block) const;
  // The number of blocks that a forward pass had, and of those that are recomputed.
  std::size_t blocks() const { return blocks_; }
  std::size_t recomputed() const;

 private:
  friend class RecomputeScope;
  friend class RecomputedBlock;
  void note(std::size_t block, const Cost& cost);

  Mode mode_;
  mutable std::mutex mutex_;  // several threads may compute with one plan
  std::atomic<std::size_t> blocks_ = 0;
  std::vector<std::optional<Cost>> costs_;
  std::vector<bool> kept_;
};

// While it exists, may_recompute() follows the plan in this thread. Blocks are numbered from 0.
// For one forward pass.
class RecomputeScope {
 public:
  explicit RecomputeScope(RecomputePlan& plan);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  friend std::vector<Variable> may_recompute(const BlockFunction& block,
                                             const std::vector<Variable>& inputs);
  std::vector<Variable> run_block(const BlockFunction& block, const std::vector<Variable>& inputs);

  RecomputePlan& plan_;
  std::size_t next_ = 0;
  RecomputeScope* outer_;
};

// A block of a model: block(inputs), recomputed if a plan says so. As for recompute(), what the
// function refers to must stay valid until the backward pass: capture references to layers, and
// everything else by value.
std::vector<Variable> may_recompute(const BlockFunction& block,
                                    const std::vector<Variable>& inputs);
Variable may_recompute(const std::function<Variable(const Variable&)>& block, const Variable& x);

}  // namespace tasuki
