// ExchangeSettings: how the gradients of a model travel between the ranks, and what that cannot be
// combined with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

enum class ExchangeMode {
  // A range travels as soon as it is complete: on CPUs in slices or by a thread, as measured, on
  // GPUs in their queue of transfers.
  overlapped,
  slices,  // the same, on CPUs in slices
  thread,  // the same, on CPUs by a thread
  whole,   // all ranges travel after the backward pass
  // All gradients travel during the next step, and its update uses them (double_buffer.hpp).
  double_buffered,
};
// "overlapped", ...
const char* name_of(ExchangeMode mode);

// The same on all ranks. On GPUs, communicators that do not queue their exchanges there
// (Communicator::queues_exchanges) exchange all gradients as one range after the backward pass, and
// ranges travel after it where layers exchange messages (Module::communicates).
struct ExchangeSettings {
  // Empty: on GPUs overlapped. On CPUs, where ranks are on several nodes, overlapped or whole as
  // measured in the first steps; else whole. Inside a node the ranks' cores do the work of the
  // exchange, so there is nothing that it could overlap with.
  std::optional<ExchangeMode> mode{};
  // Of a range, at most, but 64 at least; the last one also has the notices. 0: a sixteenth of the
  // arena, but 1 (on GPUs 4) to 25 MiB; one range if `mode` is empty and all gradients travel after
  // the backward pass.
  std::int64_t range_bytes = 0;
  // Where gradients travel in 16 bits: adds what rounding takes from them on their way to those of
  // the next step. Not of compressed gradients.
  bool error_feedback = false;
  // On CPUs: gradients travel as so many directions of each matrix (power_sgd.hpp), after the
  // backward pass, and the rest is added to the gradients of the next step; 0: as they are.
  std::int64_t power_sgd_rank = 0;

  // "overlapped, in ranges of 1048576 bytes"
  std::string text() const;
};

// What else a training does, as far as it matters to the exchange.
struct ExchangeContext {
  bool is_on_gpu = false;
  DType wire_dtype = DType::float32;  // CommunicatorOptions::wire_dtype
  bool scales_losses = false;         // Optimizer::scale_losses
  bool layers_communicate = false;    // Module::communicates
};

// One line about what excludes each other, and which settings or flags of programs to leave out;
// empty: nothing does. Both the flags of programs and the library refuse by this.
std::string conflict_in(const ExchangeSettings& settings, const ExchangeContext& context);

}  // namespace tasuki
