// The memory of training on CPUs, and what settings make of it. Pure functions; bytes.
//
// A machine with g of p ranks has
//
//   weights      W          once for its ranks (--node-weights shared, the default); with bf16
//                           3/2 W, as activations are computed with rounded ones; if machines
//                           divide them, W g / p and two units of W / 12
//   gradients    g G        if they are divided, g (G / p + those that travel), or g G if that is
//                           less (optimizer/gradient_slots.hpp)
//   states       S          of the optimizer, once for its ranks; S g / p if states are divided
//   checkpoint   W + states the copy of weights and states from which a checkpoint is written; of
//                           divided weights the machine's part
//   activations  g n A      of a pass of n examples, without those of the recomputed blocks; half
//                           of it with bf16
//   working      g n T      what a step takes beside activations at its peak, half of it with bf16,
//                           and what the largest recomputed block keeps
//   other        g O        of the process: MPI, libraries, data, batches that are read ahead
//
// W, G and S are sizes of arrays; A, T, O and the blocks' activations are measured in a run that
// wrote a trace. The states of all machines, which rank 0 puts together when no step runs, are left
// out.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/recompute.hpp"
#include "optimizer/sharding.hpp"

namespace tasuki::simulate {

struct ModelMemory {
  double weights = 0, gradients = 0, states = 0;  // of one rank that divides nothing
  double travelling = 0;                          // gradients in slots, if they are divided
  double activations = 0;                         // for each example, with nothing recomputed
  double working = 0;                             // for each example
  double other = 0;                               // of each rank
  bool is_bf16 = false;                           // the traced run computed with bf16
  // What a block keeps beside its results, and the seconds of its forward pass; for each example.
  struct Block {
    double bytes = 0, seconds = 0;
  };
  std::vector<Block> blocks{};
};

// How a model is trained, beside its number of examples.
struct Choice {
  std::int64_t accumulate = 1;  // passes of a step
  bool bf16 = false;
  Sharding sharding = Sharding::none;
  std::vector<bool> recomputed{};  // by block; blocks beyond its end are kept
  std::size_t recomputed_blocks() const;
};

struct Machine {
  int ranks = 1;     // of the job
  int per_node = 1;  // ranks of a machine, at most `ranks`
};
// `ranks_per_node`: as many ranks as there are on each machine but the last one.
Machine machine_of(int ranks, int ranks_per_node);

// Of all ranks of a machine together.
struct MachineMemory {
  double weights = 0, gradients = 0, states = 0, checkpoint = 0, activations = 0, working = 0,
         other = 0;
  double total() const {
    return weights + gradients + states + checkpoint + activations + working + other;
  }
};

// `examples`: of a rank in a pass.
MachineMemory memory_of(const ModelMemory& model, const Machine& machine, const Choice& choice,
                        double examples);

// Seconds of a rank in a step of `examples` to run the recomputed blocks again.
double recompute_seconds(const ModelMemory& model, const Choice& choice, double examples);

// All blocks of the model.
std::vector<bool> all_blocks(const ModelMemory& model);
// Of the blocks, those that --recompute auto would recompute if a rank had `room` bytes beside a
// pass of `examples` that recomputes all: it keeps those that save most time for their bytes.
std::vector<bool> blocks_beyond(const ModelMemory& model, const Choice& choice, double examples,
                                double room);

}  // namespace tasuki::simulate
