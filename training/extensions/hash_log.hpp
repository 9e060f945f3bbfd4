// log_hashes: hashes of losses, gradients, weights and states, to find where two runs part.
#pragma once

#include <cstdint>
#include <string>

#include "training/trainer.hpp"

namespace tasuki {

// Every `every` iterations, and after the last one, rank 0 adds a line to <out>/hashes
// (step_hashes.hpp), right after the update and before other extensions. It has, by path:
//   - the mean loss over all ranks
//   - "buffers": the model's buffers (running statistics) on rank 0
//   - "gradients": the sums over all ranks that the update used, before the optimizer's hooks that
//     are part of its pass. None if the iteration made no update: one that was left out
//     (StepGuard::skip_non_finite), or the first one of double-buffered gradients. Those are of the
//     step before, because the update uses these.
//   - "weights": after the update
//   - "states" of the optimizer, also if ranks divide them
// Paths are those of snapshots; with several optimizers they begin with the optimizer's name. For a
// model on several ranks they begin with "part0/", "part1/", ..., and buffers are of each part's
// first rank. If `every` does not divide the last iteration, its line has what the run ends with:
// double-buffered gradients have been used by then.
//
// A line does not depend on who keeps what: with weights that ranks share, or divided states, ranks
// send their slices to rank 0, which needs memory for one whole array at a time. Training computes
// the same bits with and without it. A GPU's arrays are copied to the host.
//
// A run that is resumed removes the lines of later iterations and goes on. A file that Tasuki has
// not written is an error before the first iteration, and so is one that lacks the line which the
// run had written when it was saved. If the file cannot be written, training goes on with a
// warning, and the next line is the next try; at the end of the run it is an error.
struct HashLogSettings {
  std::int64_t every = 1;
  std::string loss = "main/loss";  // the observed value
};
void log_hashes(Trainer& trainer, HashLogSettings settings);

}  // namespace tasuki
