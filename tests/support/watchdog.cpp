#include "watchdog.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "patience.hpp"

namespace tasuki::testing {
namespace {

std::chrono::milliseconds longest_test() {
  return std::chrono::milliseconds(static_cast<long>(60'000 * patience()));
}

class Watchdog : public ::testing::EmptyTestEventListener {
 public:
  Watchdog() : thread_([this] { watch(); }) { MPI_Comm_rank(MPI_COMM_WORLD, &rank_); }
  ~Watchdog() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void OnTestStart(const ::testing::TestInfo& test) override {
    enter(fmt::format("{}.{}", test.test_suite_name(), test.name()));
  }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::lock_guard lock(mutex_);
    failures_ += fmt::format("  failed before: {}\n", result.message());
  }
  // Appended after the printer that gathers, so called before it: that wait counts as the next
  // test's, and enter() restarts the clock.
  void OnTestEnd(const ::testing::TestInfo& test) override {
    enter(fmt::format("the end of {}.{}", test.test_suite_name(), test.name()), failures());
  }

 private:
  std::string failures() {
    const std::lock_guard lock(mutex_);
    return failures_;
  }

  void enter(const std::string& place, const std::string& failures = "") {
    const std::lock_guard lock(mutex_);
    place_ = place;
    failures_ = failures;
    deadline_ = std::chrono::steady_clock::now() + longest_test();
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      if (place_.empty() || std::chrono::steady_clock::now() < deadline_) continue;
      std::fprintf(stderr, "rank %d on %s hangs in %s\n%s", rank_, host_name().c_str(),
                   place_.c_str(), failures_.c_str());
      // The other ranks reach their deadlines about now: let them speak too.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ErrorKind::hang));
    }
  }

  int rank_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string place_, failures_;
  std::chrono::steady_clock::time_point deadline_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

void watch_for_hangs() {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
}

}  // namespace tasuki::testing
