#include "optimizer/exchange_settings.hpp"

#include <fmt/core.h>

namespace tasuki {

const char* name_of(ExchangeMode mode) {
  switch (mode) {
    case ExchangeMode::overlapped:
      return "overlapped";
    case ExchangeMode::slices:
      return "slices";
    case ExchangeMode::thread:
      return "thread";
    case ExchangeMode::whole:
      return "whole";
    case ExchangeMode::double_buffered:
      return "double-buffered";
  }
  return "unknown";
}

std::string ExchangeSettings::text() const {
  const std::string ranges =
      range_bytes > 0 ? fmt::format(", in ranges of {} bytes", range_bytes) : "";
  const std::string compression =
      power_sgd_rank > 0 ? fmt::format(", by PowerSGD of rank {}", power_sgd_rank) : "";
  return (mode ? name_of(*mode) : std::string("as the placement of ranks suggests")) + ranges +
         compression + (error_feedback ? ", with error feedback" : "");
}

std::string conflict_in(const ExchangeSettings& settings, const ExchangeContext& context) {
  const bool is_compressed = settings.power_sgd_rank > 0;
  const bool is_late = settings.mode == ExchangeMode::double_buffered;
  // What waits for the next step.
  const char* const waiting = is_late                   ? "double-buffered gradients"
                              : is_compressed           ? "compressed gradients"
                              : settings.error_feedback ? "error feedback"
                                                        : nullptr;
  if (is_compressed && settings.error_feedback)
    return "error feedback and compressed gradients exclude each other: compression keeps what it "
           "does not send, but not what rounding takes; leave one out (--error-feedback, "
           "--compress)";
  if (context.has_shards && (is_compressed || settings.error_feedback))
    return fmt::format(
        "{} and steps of shards (--reproducible): what is left out depends on the ranks; leave one "
        "out",
        is_compressed ? "compression (--compress)" : "error feedback (--error-feedback)");
  if (context.is_on_gpu && (is_compressed || settings.error_feedback))
    return fmt::format(
        "{} is for gradients of CPUs; leave it or --gpu out",
        is_compressed ? "compression (--compress)" : "error feedback (--error-feedback)");
  const char* const sharded = context.divides_weights ? "--shard weights" : "--shard gradients";
  if (context.keeps_sums_only && context.is_on_gpu)
    return fmt::format(
        "{} and --gpu: on GPUs all gradients are summed on each rank; leave --gpu out, or choose "
        "--shard states",
        sharded);
  if (context.keeps_sums_only && waiting != nullptr)
    return fmt::format(
        "{} and {}: what waits for the next step would be as large as all gradients; choose "
        "--shard "
        "states, or leave one out (--exchange, --compress, --error-feedback)",
        sharded, waiting);
  if (context.keeps_sums_only && settings.mode == ExchangeMode::whole)
    return fmt::format(
        "{} and --exchange whole: gradients travel during the backward pass, so that no rank has "
        "all "
        "of them; choose --shard states, or leave one out",
        sharded);
  if (settings.error_feedback && context.wire_dtype == DType::float32)
    return "error feedback (--error-feedback) keeps what rounding takes from gradients, and "
           "float32 is not rounded; leave it out, or add --wire-dtype fp16 or bf16";
  if (is_compressed && settings.mode.value_or(ExchangeMode::whole) != ExchangeMode::whole)
    return fmt::format(
        "--compress and --exchange {}: compressed gradients travel after the backward pass; leave "
        "one out",
        name_of(*settings.mode));
  if (settings.error_feedback && is_late)
    return "--error-feedback and --exchange double-buffered: what rounding takes would come two "
           "steps late; leave one out";
  if (settings.range_bytes > 0 && (is_compressed || is_late))
    return is_compressed ? "--compress and --bucket-mb: compressed gradients travel at once; leave "
                           "one out"
                         : "--exchange double-buffered and --bucket-mb: double-buffered gradients "
                           "travel at once; leave one out";
  if (context.is_on_gpu && is_late && context.layers_communicate)
    return "--exchange double-buffered, --sync-bn and --gpu: two exchanges of NCCL's at a time may "
           "block each other; leave one out";
  if (context.scales_losses && waiting != nullptr)
    return fmt::format(
        "{} and loss scaling exclude each other, because the scale may change in between; leave "
        "one out (--exchange, --compress, --error-feedback, --dtype fp16)",
        waiting);
  if (context.skips_non_finite && waiting != nullptr)
    return fmt::format(
        "{} and leaving out steps that are not finite exclude each other, because what is not "
        "finite would come back in the next step; leave one out (--exchange, --compress, "
        "--error-feedback, --on-nan skip)",
        waiting);
  return "";
}

}  // namespace tasuki
