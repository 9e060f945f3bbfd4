// When a launcher counts as stuck (tools/supervisor/stuck_launcher.hpp).
#include "tools/supervisor/stuck_launcher.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "core/process_state.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/patience.hpp"

namespace tasuki::testing {
namespace {

using supervisor::StuckLauncher;

void ignore(int /*signal*/) {}

// A process of the launcher's name that handles SIGUSR1 until it gets SIGUSR2, and then sleeps. It
// has a child until the child gets a signal.
class Launcher {
 public:
  explicit Launcher(const char* name, bool has_ranks = false) : process_(fork()) {
    if (process_ != 0) {
      wait_until([&] { return state().catches(SIGUSR2); });
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, name);
    sigset_t none;  // other tests block signals
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (has_ranks && fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    signal(SIGUSR1, ignore);
    signal(SIGUSR2, [](int) { signal(SIGUSR1, SIG_DFL); });
    for (;;) pause();
  }
  ~Launcher() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  pid_t process() const { return process_; }
  ProcessState state() const { return process_state(process_).value_or(ProcessState{}); }
  void begin_to_end() const {
    kill(process_, SIGUSR2);
    wait_until([&] { return !state().catches(SIGUSR1) && state().state == 'S'; });
  }
  void stop() const {
    kill(process_, SIGSTOP);
    wait_until([&] { return state().is_stopped(); });
  }

 private:
  template <class Is>
  static void wait_until(const Is& is) {
    for (const double end = shared_clock() + 10 * patience(); !is() && shared_clock() < end;)
      usleep(1000);
    ASSERT_TRUE(is());
  }

  pid_t process_;
};

// The number of the first look that finds it stuck; 0: none of ten.
int stuck_at(StuckLauncher& watched, bool may_print = true) {
  for (int look = 1; look <= 10; ++look)
    if (watched.is_stuck(may_print)) return look;
  return 0;
}

TEST(StuckLauncher, SleepsWithoutHandlerAndRanks) {
  const Launcher launcher("mpirun");
  StuckLauncher watched(launcher.process());
  EXPECT_TRUE(watched.note_ready());
  EXPECT_EQ(stuck_at(watched), 0);
  launcher.begin_to_end();
  EXPECT_EQ(stuck_at(watched), StuckLauncher::limit + 1);
}

TEST(StuckLauncher, IsNoneThatMayStillPrint) {
  const Launcher launcher("mpirun");
  StuckLauncher watched(launcher.process());
  EXPECT_TRUE(watched.note_ready());
  launcher.begin_to_end();
  EXPECT_EQ(stuck_at(watched, false), 0);
  EXPECT_EQ(stuck_at(watched), StuckLauncher::limit + 1) << "looks before did not count";
}

TEST(StuckLauncher, IsNoneThatWasNeverReady) {
  const Launcher launcher("mpirun");
  launcher.begin_to_end();
  StuckLauncher watched(launcher.process());
  EXPECT_FALSE(watched.note_ready());
  EXPECT_EQ(stuck_at(watched), 0);
}

TEST(StuckLauncher, IsNoneThatHasRanks) {
  const Launcher launcher("mpirun", true);
  StuckLauncher watched(launcher.process());
  EXPECT_TRUE(watched.note_ready());
  launcher.begin_to_end();
  EXPECT_EQ(stuck_at(watched), 0);
  for (const pid_t rank : descendants(launcher.process())) kill(rank, SIGKILL);
  for (const double end = shared_clock() + 10 * patience(); shared_clock() < end; usleep(1000)) {
    const auto ranks = descendants(launcher.process());
    if (ranks.empty() || process_state(ranks[0])->has_ended()) break;
  }
  EXPECT_EQ(stuck_at(watched), StuckLauncher::limit + 1) << "a rank that has ended is a zombie";
}

TEST(StuckLauncher, IsNoneThatIsStopped) {
  const Launcher launcher("mpirun");
  StuckLauncher watched(launcher.process());
  EXPECT_TRUE(watched.note_ready());
  launcher.begin_to_end();
  launcher.stop();
  EXPECT_EQ(stuck_at(watched), 0);
}

TEST(StuckLauncher, IsOpenMpisAlone) {
  const Launcher launcher("srun");
  StuckLauncher watched(launcher.process());
  EXPECT_FALSE(watched.note_ready());
  launcher.begin_to_end();
  EXPECT_EQ(stuck_at(watched), 0);
}

}  // namespace
}  // namespace tasuki::testing
