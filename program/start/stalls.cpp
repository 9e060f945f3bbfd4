#include "program/start/stalls.hpp"

#include "job/stall_limits.hpp"

namespace tasuki::program {
namespace {

constexpr NumberRange seconds = {0.0, 1e7};

}  // namespace

void add_stall_flags(Options& options, StallSettings& settings) {
  options
      .add("stall-warning", settings.warning, seconds, "SECONDS",
           "print which rank keeps the others waiting when no rank has made progress for this "
           "long; 0: never")
      .in_short("name the rank others wait for");
  options
      .add("stall-timeout", settings.timeout, seconds, "SECONDS",
           "end the job when no rank has made progress for this long (six times as long if ranks "
           "wait only for user code); 0: never, and --silence-timeout has no effect")
      .in_short("end a job without progress");
  options
      .add(
          "silence-timeout", settings.silence, seconds, "SECONDS",
          "end the job when a rank has given no sign of life for this long, because it was stopped "
          "or its machine is lost; 0: treat it like a rank without progress")
      .in_short("end a job with a silent rank");
}

void apply(const StallSettings& settings) {
  StallLimits limits;
  limits.warning = settings.warning;
  limits.timeout = settings.timeout;
  limits.silence = settings.silence;
  limits.way_out =
      fmt::format("set --stall-timeout higher than {} (0: no limit)", to_text(settings.timeout));
  limits.way_out_of_silence =
      fmt::format("set --silence-timeout higher than {}", to_text(settings.silence));
  set_stall_limits(limits);
}

}  // namespace tasuki::program
