// What mpirun's and srun's texts say about a failure.
#include "tools/supervisor/launcher_failure.hpp"

#include <gmock/gmock.h>

#include "tools/supervisor/launcher_text.hpp"

namespace tasuki::supervisor {
namespace {

const std::string line_of_dashes(76, '-');
const std::string no_daemon =
    "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n"
    "* not finding the required libraries and/or binaries on\n  one or more nodes.\n";

std::string framed(const std::string& text) {
  return line_of_dashes + '\n' + text + line_of_dashes + '\n';
}

struct Refusal {
  std::string said, line, host;
};

TEST(LauncherFailures, ReportMissingProgramsAndFolders) {
  const Refusal refusals[] = {
      {"mpirun was unable to launch the specified application as it could not access\n"
       "or execute an executable:\n\nExecutable: /opt/train\nNode: node2\n\nwhile attempting to "
       "start process rank 2.\n",
       "error: /opt/train is missing on node2, or cannot be executed there; every host needs it at "
       "this path",
       "node2"},
      {"mpirun was unable to launch the specified application as it could not\nchange to the "
       "specified working directory:\n\nWorking directory: /srv/a b\nNode: node2\n\nwhile "
       "attempting to start process rank 2.\n",
       "error: the working folder /srv/a b is missing on node2, or cannot be entered there; every "
       "host needs it",
       "node2"},
      {"Open MPI tried to fork a new process via the \"execve\" system call but\nfailed.  Open MPI "
       "checks many things.\n\n  Local host:        node2\n  Working dir:       /srv\n  "
       "Application "
       "name:  ./train\n  Error:             Exec format error\n",
       "error: ./train cannot be executed on node2: Exec format error", "node2"},
      {"mpirun was unable to start the specified application as it encountered an\nerror:\n\nError "
       "code: -125\nError name: The specified application failed to start\nNode: node2\n\nwhen "
       "attempting to start process rank 0.\n",
       "error: the program cannot be executed on node2", "node2"},
      {"prterun was unable to find the specified executable file, and therefore did\nnot launch "
       "the "
       "job.  This error was first reported for process rank\n0; it may have occurred for other "
       "processes as well.\n\nNOTE: A common cause for this error is misspelling a prterun "
       "command\n"
       "   line parameter option.\n\n   Node:       node2\n   Executable: /opt/my train\n",
       "error: /opt/my train is missing on node2, or cannot be executed there; every host needs it "
       "at this path",
       "node2"},
      {"prterun was unable to launch the specified application as it lacked\npermissions to "
       "execute "
       "an executable:\n\n   Executable: /opt/train\n   Node: node2\n\nwhile attempting to start "
       "process rank 0.\n",
       "error: /opt/train is missing on node2, or cannot be executed there; every host needs it at "
       "this path",
       "node2"},
      {"prterun was unable to launch the specified application as it encountered an\nerror:\n\n"
       "Error: system limit exceeded on number of files that can be open\n\n   Node: node2\n\nwhen "
       "attempting to start process rank 0.\n\nThis can be resolved by setting the mca parameter\n",
       "error: the program cannot be started on node2; the working folder may be missing there, or "
       "cannot be entered: every host needs it",
       "node2"}};
  for (const Refusal& refusal : refusals) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(text.pass(framed(refusal.said)), "") << "the line says it all";
    ASSERT_TRUE(text.cause()) << refusal.said;
    EXPECT_EQ(text.cause()->line, refusal.line);
    EXPECT_EQ(text.cause()->host, refusal.host);
    EXPECT_EQ(text.start_failure(), StartFailure::refused);
  }
}

TEST(LauncherFailures, NameTheRankOfAnExitCode) {
  for (const std::string name : {"[[9721,1],3]", "[prterun-node1-17781@1,3]"}) {
    LauncherText text(/*leave_out=*/true);
    text.pass(
        framed("mpirun detected that one or more processes exited with non-zero status,\n"
               "thus causing the job to be terminated. The first process to do so was:\n\n"
               "   Process name: " +
               name + "\n   Exit code:    5\n"));
    ASSERT_TRUE(text.cause()) << name;
    EXPECT_EQ(text.cause()->line, "error: rank 3 ended with exit code 5");
    EXPECT_EQ(text.cause()->rank, 3);
  }
}

TEST(LauncherFailures, ReportRejectedFlagsAndSlots) {
  LauncherText slots(/*leave_out=*/true);
  const std::string said = framed(
      "There are not enough slots available in the system to satisfy the 9\nslots that were "
      "requested by the application:\n\n  train\n");
  EXPECT_EQ(slots.pass(said), said) << "it says what to do";
  EXPECT_EQ(slots.start_failure(), StartFailure::refused);
  EXPECT_FALSE(slots.cause());
  LauncherText flag(/*leave_out=*/true);
  flag.pass("mpirun: Error: unknown option \"--x\"\nType 'mpirun --help' for usage.\n");
  EXPECT_EQ(flag.start_failure(), StartFailure::refused);
  EXPECT_EQ(flag.cause()->line, "error: mpirun: unknown option \"--x\"");
}

TEST(LauncherFailures, ReportUnreachableHosts) {
  LauncherText known(/*leave_out=*/true);
  const std::string line = "ssh: connect to host node2 port 22: No route to host";
  EXPECT_EQ(known.pass(line + "\r\n" + framed(no_daemon)), line + "\r\n");
  EXPECT_EQ(known.start_failure(), StartFailure::no_daemon);
  EXPECT_EQ(known.cause()->line, "error: node2 cannot be reached (" + line + ")");
  EXPECT_EQ(known.cause()->host, "node2");
  LauncherText unresolved(/*leave_out=*/true);
  unresolved.pass("ssh: Could not resolve hostname node9: Temporary failure in name resolution\n" +
                  framed(no_daemon));
  EXPECT_EQ(unresolved.cause()->host, "node9");

  LauncherText unknown(/*leave_out=*/true);
  const std::string shell = "bash: line 1: orted: command not found\n";
  EXPECT_EQ(unknown.pass(shell + framed(no_daemon)), shell + framed(no_daemon));
  EXPECT_EQ(unknown.start_failure(), StartFailure::no_daemon);
  EXPECT_THAT(unknown.cause()->line, ::testing::HasSubstr("could not start its daemon on a host"));
  EXPECT_FALSE(unknown.is_cause_last());

  LauncherText unrelated(/*leave_out=*/true);
  unrelated.pass("ssh: connect to host data port 22: No route to host\n");
  EXPECT_FALSE(unrelated.cause()) << "the program's own";
  EXPECT_EQ(unrelated.start_failure(), StartFailure::none);
}

// mpirun says the same of a daemon that it loses while ranks run.
TEST(LauncherFailures, ReportHostsLostLater) {
  for (const bool have_run : {false, true}) {
    LauncherText text(/*leave_out=*/true, [&] { return have_run; });
    EXPECT_EQ(text.pass(framed(no_daemon)).empty(), have_run);
    EXPECT_EQ(text.start_failure(), have_run ? StartFailure::none : StartFailure::no_daemon);
    EXPECT_EQ(text.cause()->line.starts_with("error: a host was lost while the job ran"), have_run)
        << text.cause()->line;
  }
}

// PRRTE names the host, ends with 0 or with the remote shell's code, and leaves a zero byte behind.
TEST(LauncherFailures, ReportHostsThatPrrteLoses) {
  const std::string lost = framed(
      "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : "
      "[prterun-node1-15@0,0] on node node1\n  Remote daemon: [prterun-node1-15@0,1] on node "
      "node2\n\nThis is usually due to either a failure of the TCP network\n");
  const std::string after = "warning: the end\n";
  for (const bool have_run : {false, true}) {
    LauncherText text(/*leave_out=*/true, [&] { return have_run; });
    EXPECT_EQ(text.pass(lost + '\0' + after), after);
    EXPECT_TRUE(text.has_lost_host());
    EXPECT_EQ(text.start_failure(), have_run ? StartFailure::none : StartFailure::no_daemon);
    EXPECT_EQ(text.cause()->host, "node2");
    EXPECT_THAT(
        text.cause()->line,
        ::testing::StartsWith(have_run ? "error: the connection to node2 was lost"
                                       : "error: mpirun could not start its daemon on node2"));
  }
  LauncherText unreached(/*leave_out=*/true);
  const std::string said = "ssh: connect to host node2 port 22: No route to host\n";
  EXPECT_EQ(unreached.pass(said + lost), said);
  EXPECT_THAT(unreached.cause()->line, ::testing::StartsWith("error: node2 cannot be reached"));
}

TEST(LauncherFailures, ReportSrunErrorsAsLines) {
  LauncherText text(/*leave_out=*/true);
  text.pass(
      "slurmstepd-node2: error: execve(): /opt/train: No such file or directory\n"
      "srun: error: node2: tasks 2-3: Exited with exit code 2\n");
  EXPECT_EQ(text.cause()->line,
            "error: /opt/train cannot be executed on node2: No such file or directory");
  EXPECT_EQ(text.start_failure(), StartFailure::refused);
}

}  // namespace
}  // namespace tasuki::supervisor
