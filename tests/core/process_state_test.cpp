#include "core/process_state.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace tasuki {
namespace {

TEST(ProcessStatus, IsParsedByKeys) {
  const ProcessState state = parse_process_status(
      "Name:\torted\nUmask:\t0022\nState:\tT (stopped)\nTgid:\t12\nPid:\t12\nPPid:\t7\n"
      "TracerPid:\t99\nUid:\t0\t0\t0\t0\nVmRSS:\t    1808 kB\n"
      "SigCgt:\t8000000100014201\n");
  EXPECT_STREQ(state.name.data(), "orted");
  EXPECT_TRUE(state.is_stopped());
  EXPECT_EQ(state.parent, 7);
  EXPECT_EQ(state.tracer, 99);
  EXPECT_EQ(state.memory, 1808 * 1024);
  EXPECT_TRUE(state.catches(SIGHUP) && state.catches(10) && state.catches(SIGTERM));
  EXPECT_TRUE(state.catches(64));
  EXPECT_FALSE(state.catches(SIGUSR2) || state.catches(11));
}

TEST(ProcessStatus, IsIgnoredWhenDamaged) {
  for (const std::string text :
       {"", "\n\n", "Name", "Name:", "Name:\t", "State:\nPPid:\tx\nSigCgt:\t?\n",
        "TracerPid:\t99999999999999999999\n"}) {
    const ProcessState state = parse_process_status(text);
    EXPECT_EQ(state.parent, 0);
    EXPECT_EQ(state.tracer, 0);
    EXPECT_FALSE(state.is_stopped());
    EXPECT_FALSE(state.catches(SIGTERM));
  }
}

TEST(Processes, AreFoundStoppedAndAmongDescendants) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    for (;;) pause();
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const auto state = process_state(child);
  const auto all = descendants(getpid());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->is_stopped());
  EXPECT_EQ(state->parent, getpid());
  EXPECT_EQ(all, std::vector<pid_t>{child});
  EXPECT_FALSE(process_state(child));
}

// A process whose parent does not ask for its exit status keeps its number and its name.
TEST(Processes, AreDetectedAsEnded) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const auto state = process_state(child), own = process_state(getpid());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(state && own);
  EXPECT_TRUE(state->has_ended());
  EXPECT_FALSE(own->has_ended());
}

}  // namespace
}  // namespace tasuki
