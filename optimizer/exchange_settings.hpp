// ExchangeSettings: when and how the gradients of a model travel between the ranks, and which
// settings exclude each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/dtype.hpp"

namespace tasuki {

// When the gradients of a step travel. The bits of the sums depend on the ranges, not on the mode.
enum class ExchangeMode {
  // During the backward pass, each range when it is complete. On CPUs, the first steps try those
  // of `slices` and `thread` that the communicator supports (Communicator::supports), and the
  // faster one is kept (exchange_trials.hpp). On GPUs, ranges travel in the queue of transfers.
  overlapped,
  slices,  // overlapped, on CPUs by the thread that computes, in slices between layers
  thread,  // overlapped, on CPUs by a thread of the communicator
  whole,   // after the backward pass, range by range
  // During the next step, all at once; the next step's update uses them (double_buffer.hpp).
  double_buffered,
};
// "overlapped", ...
const char* name_of(ExchangeMode mode);

// The same on all ranks. On GPUs, communicators that do not queue their exchanges there
// (Communicator::queues_exchanges) exchange all gradients as one range after the backward pass.
// If layers exchange messages (Module::communicates), ranges travel after the backward pass.
struct ExchangeSettings {
  // Empty: on GPUs `overlapped`; on CPUs of several nodes `overlapped` or `whole`, whichever was
  // faster in the first steps; on CPUs of one node `whole`. Inside a node the ranks' own cores do
  // the work of the exchange, so overlap would gain nothing.
  std::optional<ExchangeMode> mode{};
  // The largest size of a range, at least 64 bytes; the last range also has the few
  // numbers that ranks exchange with their gradients (ParameterArena::notice). 0: a sixteenth of
  // the arena, but at least 1 MiB (on GPUs 4 MiB) and at most 25 MiB; if `mode` is empty, the whole
  // arena on CPUs of one node. On GPUs, with 0, parameters are not divided, and ranges that travel
  // after the backward pass are one, the whole arena; where gradients travel in 16 bits, a buffer
  // of half the largest range is kept, so of half the largest parameter at least. With compression
  // always the whole arena.
  std::int64_t range_bytes = 0;
  // For gradients that travel in 16 bits: adds rounding errors to the gradients of the next step.
  // Not together with compression.
  bool error_feedback = false;
  // On CPUs: the rank to which PowerSGD compresses each matrix of gradients (power_sgd.hpp).
  // Compressed gradients travel after the backward pass, and the errors are added to the gradients
  // of the next step. 0: no compression.
  std::int64_t power_sgd_rank = 0;

  // "overlapped, in ranges of 1048576 bytes"
  std::string text() const;
};

// Other settings of a training, which may exclude some settings of the exchange.
struct ExchangeContext {
  bool is_on_gpu = false;
  DType wire_dtype = DType::float32;  // CommunicatorOptions::wire_dtype
  bool scales_losses = false;         // StepGuard::scale_losses
  bool skips_non_finite = false;      // StepGuard::skip_non_finite
  bool layers_communicate = false;    // Module::communicates
  bool has_shards = false;            // Optimizer::set_shards
  bool keeps_sums_only = false;       // ParameterArena::keeps_sums_only
  bool divides_weights = false;       // Sharding::weights, for texts
};

// Returns one line that names settings which exclude each other and says what to leave out; empty
// if all are compatible. Programs check their flags with it, and the optimizer its settings.
std::string conflict_in(const ExchangeSettings& settings, const ExchangeContext& context);

}  // namespace tasuki
