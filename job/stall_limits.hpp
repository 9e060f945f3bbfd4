// StallLimits: how long a job may make no progress before the watchdog ends it.
#pragma once

#include <string>

namespace tasuki {

// Seconds without progress (find_stall in stall.hpp) after which there is a warning, and after
// which the job ends. User code often reports no progress, so limits are six times longer if the
// stall may be work (Stall::may_be_work). A rank without a sign of life (stopped, or its machine
// lost) ends the job after `silence` seconds (find_silence). 0: never; a timeout of 0 disables
// `silence`, too.
//
// A job with a debugger attached to a rank is left alone. Other nodes know about the debugger if
// another rank on that node reports it, or if it was attached from the start.
struct StallLimits {
  double warning = 60;
  double timeout = 300;
  double silence = 15;
  // For messages: what to do about an end that came too early.
  std::string way_out = "programs set these limits with set_stall_limits()";
  std::string way_out_of_silence = way_out;
};

// Sets the limits for the watchdog of this process, the current one and later ones. May be called
// at any time; all ranks should set the same. User code that may take longer while others wait for
// it sets a higher limit, or calls report_progress() (core/activity.hpp) now and then.
void set_stall_limits(const StallLimits& limits);
StallLimits stall_limits();

}  // namespace tasuki
