// Ranges of NVIDIA's profilers (NVTX), for phases and waits of the host.
#pragma once

namespace tasuki {

// Scopes of core/trace.hpp become NVTX ranges from now on. Without a profiler a range costs a call.
// Does nothing if the toolkit that built this library lacks NVTX.
void show_scopes_to_profilers();

}  // namespace tasuki
