// When memory goes back to CUDA. Freeing it waits for the device, which breaks a recording (stream
// capture) that any thread makes meanwhile, and never ends where the device waits for a rank that
// is lost.
#pragma once

#include <functional>

namespace tasuki {

// Calls `release`, which gives memory back and makes no errors: now, or, while anything is recorded
// or an error goes through the calling thread, at a later call or at the end of the recording. A
// process that ends with an error never gets there. `release` must not call this in turn.
void release_when_idle(std::function<void()> release) noexcept;

// Does now what waits, where that can be. May leave the calling thread on another device.
void release_what_waits();

// Gives page-locked memory back when `device` is done with it, in the same way.
void free_pinned(void* memory, int device) noexcept;

// While one lives, in whatever thread, nothing is released.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

}  // namespace tasuki
