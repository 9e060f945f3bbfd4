#include "core/long_call.hpp"

#include <chrono>
#include <system_error>

#include "core/activity.hpp"

namespace tasuki {

LongCall::LongCall() {
  if (!counts_progress()) return;
  try {
    thread_ = std::thread([this] {
      constexpr int most = 30 * 60;  // seconds; a longer call counts as a stall
      std::unique_lock lock(mutex_);
      for (int seconds = 0; seconds < most; ++seconds) {
        if (over_.wait_for(lock, std::chrono::seconds(1), [this] { return is_over_; })) return;
        report_progress();
      }
    });
  } catch (const std::system_error&) {
  }
}

LongCall::~LongCall() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace tasuki
