// A run that fails while its checkpoint is being written to a disk that hangs.
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "models/mlp.hpp"
#include "saving/output_layout.hpp"
#include "scripted_updater.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/checkpoint.hpp"

namespace {

std::atomic<bool> hangs = false, is_hanging = false;
const std::thread::id training = std::this_thread::get_id();

}  // namespace

// In place of the C library's: a call of the library's other threads never returns.
extern "C" int fsync(int file) {
  while (hangs && std::this_thread::get_id() != training) {
    is_hanging = true;
    pause();
  }
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace tasuki {
namespace {

using namespace std::chrono_literals;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;

constexpr int exit_code = 70;

// Ends the process.
[[noreturn]] void train_until_it_fails(const std::filesystem::path& out) {
  alarm(30);  // kills it, should it wait longer
  int code = 0;
  {
    MLP model{2, 2, 2};
    model.initialize(0);
    const auto optimizer = create_optimizer("sgd");
    optimizer->setup(model);
    const auto step = [](std::int64_t iteration, Observation&) {
      if (iteration < 3) return;
      while (!is_hanging) std::this_thread::sleep_for(1ms);
      throw std::runtime_error("a rank fails");
    };
    Trainer trainer(std::make_unique<ScriptedUpdater>(1, step, optimizer.get()), stop_after(9),
                    out);
    trainer.extend(std::make_unique<Checkpoint>(Checkpoint::Settings{.patience = 300ms},
                                                at({2}, Unit::iteration)));
    hangs = true;
    try {
      trainer.run();
    } catch (const std::runtime_error&) {
      code = exit_code;
    }
  }
  std::exit(code);  // while the thread that writes hangs
}

TEST(FailedRun, DoesNotWaitForAHungDisk) {
  const TemporaryFolder folder;
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) train_until_it_fails(folder / "out");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "it waited for the disk";
  EXPECT_EQ(WEXITSTATUS(status), exit_code);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s * testing::patience());
  EXPECT_TRUE(checkpoints_in(folder / "out").empty());
}

}  // namespace
}  // namespace tasuki
