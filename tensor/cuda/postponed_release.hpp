// When memory is given back to CUDA. Freeing waits for the device, which breaks a recording (stream
// capture) in any thread, and never ends if the device waits for a lost rank.
#pragma once

#include <functional>

namespace tasuki {

// Calls `release`, which frees memory and does not fail: at once, or, while anything is recorded or
// an exception unwinds the calling thread, in a later call or at the end of the recording. A
// process that ends with an error never does. `release` must not call this function.
void release_when_idle(std::function<void()> release) noexcept;

// Does postponed releases now, if possible. May change the calling thread's current device.
void release_what_waits();

// Frees page-locked memory when `device` has finished with it, in the same way.
void free_pinned(void* memory, int device) noexcept;

// While one exists, in any thread, nothing is released.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

}  // namespace tasuki
