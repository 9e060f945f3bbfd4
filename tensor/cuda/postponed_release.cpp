#include "tensor/cuda/postponed_release.hpp"

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "tensor/cuda/check.hpp"

namespace tasuki {
namespace {

// The mutex is held during the release, so that no recording begins meanwhile.
struct Releases {
  std::mutex mutex;
  int recordings = 0;
  std::vector<std::function<void()>> waiting;

  void run() {
    if (recordings > 0 || is_failing()) return;
    for (const auto& release : std::exchange(waiting, {})) release();
  }
};

// Never destroyed, because static tensors may be destroyed later.
Releases& releases() {
  static auto* const made = new Releases;
  return *made;
}

}  // namespace

void release_when_idle(std::function<void()> release) noexcept {
  const std::lock_guard lock(releases().mutex);
  try {
    releases().waiting.push_back(std::move(release));
  } catch (const std::exception&) {
    return;  // out of memory already: this block is leaked
  }
  releases().run();
}

void release_what_waits() {
  const std::lock_guard lock(releases().mutex);
  releases().run();
}

void free_pinned(void* memory, int device) noexcept {
  release_when_idle([memory, device] {
    if (cudaSetDevice(device) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return;
    static_cast<void>(cudaFreeHost(memory));
  });
}

RecordingScope::RecordingScope() {
  const std::lock_guard lock(releases().mutex);
  ++releases().recordings;
}

RecordingScope::~RecordingScope() {
  const std::lock_guard lock(releases().mutex);
  --releases().recordings;
  releases().run();
}

}  // namespace tasuki
