#include "core/own_process.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "core/background_thread.hpp"
#include "core/job_process.hpp"
#include "tests/support/forked_child.hpp"

namespace tasuki {
namespace {

using testing::status_of_child;

struct Counted {
  explicit Counted(int& count) : count_(count) {}
  ~Counted() { ++count_; }
  int& count_;
};

TEST(OwnProcess, DestroysItsObjectExceptInAForkedChild) {
  int destroyed = 0;
  {
    std::optional<OwnProcess<Counted>> object(std::in_place, destroyed);
    EXPECT_TRUE(object->is_here());
    EXPECT_EQ(status_of_child([&] {
                const bool was_here = object->is_here();
                object.reset();
                if (was_here || destroyed != 0) _exit(1);
              }),
              0);
  }
  EXPECT_EQ(destroyed, 1);
}

// A thread that waits on a condition variable keeps its destructor from returning.
TEST(BackgroundThread, IsNotJoinedInAForkedChild) {
  std::optional<BackgroundThread> thread(std::in_place);
  thread->start([] {}).get();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(status_of_child([&] { thread.reset(); }), 0);
    thread->start([] {});  // so that some children are made while it runs or is about to wait
  }
}

TEST(JobProcess, IsAnyProcessOutsideAJob) {
  const auto is_one = [] { return status_of_child([] { _exit(is_job_process() ? 0 : 1); }) == 0; };
  EXPECT_TRUE(is_job_process());
  EXPECT_TRUE(is_one());
  begin_job_process();
  EXPECT_TRUE(is_job_process());
  EXPECT_FALSE(is_one());
  end_job_process();
  EXPECT_TRUE(is_one());
}

}  // namespace
}  // namespace tasuki
