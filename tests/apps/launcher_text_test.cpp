// Which text of the launcher is left out, and what it says about a failure.
#include <gmock/gmock.h>

#include "tools/supervisor/launcher_text.hpp"

namespace tasuki::supervisor {
namespace {

const std::string rule(76, '-');
const std::string aborted = rule +
                            "\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
                            "with errorcode 70.\n\nNOTE: invoking MPI_ABORT causes ...\n" +
                            rule + "\n";
const std::string killed = rule +
                           "\nmpirun noticed that process rank 1 with PID 4711 on node node2 "
                           "exited on signal 9\n(Killed).\n" +
                           rule + "\n";
const std::string called_abort = rule +
                                 "\nprterun has exited due to process rank 1 with PID 0 on node "
                                 "node2 calling\n\"abort\". This may "
                                 "have caused other processes ...\n" +
                                 rule + '\n' + '\0';
const std::string remarks =
    "[node1:04711] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
    "[node1:04711] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error "
    "messages\n"
    "mpirun: Forwarding signal 10 to job\n"
    "[node1:00025] plm:ssh: Warning: setpgid(31,31) failed in parent with errno=Permission "
    "denied(13)\n"
    "[node1:08285] [[19619,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file "
    "../../../orte/util/show_help.c at line 507\n";

// Whatever the pieces in which it arrives.
std::string pass_in_pieces(LauncherText& text, const std::string& all, std::size_t size) {
  std::string shown;
  for (std::size_t i = 0; i < all.size(); i += size) shown += text.pass(all.substr(i, size));
  return shown + text.release();
}

TEST(LauncherTexts, OmitRepeatedErrors) {
  const std::string error = "rank 1 on node2: the disk is full\n";
  const std::string warned = "warning: hot\n" + error;
  const std::string ended = aborted + called_abort + error + remarks + killed;
  const std::string warned_and_ended = "warning: hot\n" + ended;
  for (const std::size_t size : {1u, 7u, 10'000u}) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(pass_in_pieces(text, warned_and_ended, size), warned);
    ASSERT_TRUE(text.cause());
    EXPECT_EQ(text.cause()->line + '\n', error);
    EXPECT_EQ(text.cause()->rank, 1);
    EXPECT_EQ(text.cause()->host, "node2");
    EXPECT_TRUE(text.is_cause_last());

    LauncherText all(/*leave_out=*/false);
    EXPECT_EQ(pass_in_pieces(all, ended, size), ended);
    EXPECT_EQ(all.cause()->line + '\n', error);
    EXPECT_FALSE(all.is_cause_last());
  }
}

// A program may print a line of dashes, which ends nowhere.
TEST(LauncherTexts, FindErrorsAfterAnUnpairedRule) {
  const std::string error = "rank 1 on node2: the disk is full\n";
  const std::string text_before = rule + "\nepoch 1\n" + error;
  const std::string aborting = text_before + aborted;
  const std::string ended = aborting + killed;
  for (const std::size_t size : {1u, 10'000u}) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(pass_in_pieces(text, ended, size), text_before);
    EXPECT_EQ(text.cause()->line + '\n', error);
    EXPECT_TRUE(text.is_cause_last());
    LauncherText open(/*leave_out=*/true);
    EXPECT_EQ(pass_in_pieces(open, text_before, size), text_before);
    EXPECT_EQ(open.cause()->line + '\n', error);
    EXPECT_TRUE(open.is_cause_last());
    LauncherText all(/*leave_out=*/false);
    EXPECT_EQ(pass_in_pieces(all, aborting, size), aborting);
    EXPECT_EQ(all.cause()->line + '\n', error);
    EXPECT_FALSE(all.is_cause_last());
  }
}

TEST(LauncherTexts, ExplainRanksWithoutErrors) {
  const auto cause_of = [](const std::string& said) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(text.pass(rule + '\n' + said + '\n' + rule + '\n'), "");
    return text.cause().value_or(Cause{"(none)", {}, ""});
  };
  LauncherText text(/*leave_out=*/true);
  EXPECT_EQ(text.pass(killed), "");
  EXPECT_EQ(text.cause()->line, "rank 1 on node2: ended by signal 9 (Killed)");
  EXPECT_FALSE(text.is_cause_last());
  EXPECT_EQ(
      cause_of("mpirun noticed that process rank 0 with PID 7 on node node1 exited on signal 7 "
               "(Bus error).")
          .line,
      "rank 0 on node1: ended by signal 7 (Bus error): a mapped data file was shortened, or its "
      "disk or network file system could not read it (dmesg), or /dev/shm is full");

  const Cause lost = cause_of(
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[28932,0],0] on node node1\n"
      "  Remote daemon: [[28932,0],1] on node node2\n\nThis is usually due to ...");
  EXPECT_EQ(lost.line, "error: the connection to node2 was lost");
  EXPECT_EQ(lost.host, "node2");
  const Cause code = cause_of(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[51234,1],3]\n  Exit code:    5");
  EXPECT_EQ(code.line, "error: rank 3 ended with exit code 5");
  EXPECT_EQ(code.rank, 3);
}

TEST(LauncherTexts, NameSrun) {
  LauncherText text(/*leave_out=*/true);
  text.pass("srun: error: node1: task 3: Killed\nsrun: error: node1: task 0: Terminated\n");
  EXPECT_EQ(text.cause()->line, "rank 3 on node1: Killed");
  EXPECT_EQ(text.cause()->host, "node1");
}

TEST(LauncherTexts, PassOnEverythingElseUnchanged) {
  const std::string other = rule + "\nThere are not enough slots available ...\n" + rule + "\n";
  for (const std::string& said :
       {std::string("\r\033[J 37 % of [======    ]"), std::string("[====>   ]"),
        std::string("--- begin ---\n"), std::string("[node1:1] *** Process received signal ***\n"),
        std::string("[node1:1] [[1,0],0] ORTE_ERROR_LOG: Not found in file plm.c at line 5\n"),
        std::string("\n\n"), std::string("no end of line"), rule + "+\n"})
    for (const std::size_t size : {1u, 1000u}) {
      LauncherText text(/*leave_out=*/true);
      std::string shown;
      for (std::size_t i = 0; i < said.size(); i += size) shown += text.pass(said.substr(i, size));
      EXPECT_EQ(shown, said);
      EXPECT_FALSE(text.is_holding());
    }
  LauncherText text(/*leave_out=*/true);
  std::string shown = text.pass(other);
  EXPECT_EQ(shown + text.release(), other);
  EXPECT_EQ(text.pass(rule + "\nMPI_ABORT was"), "");
  EXPECT_TRUE(text.is_holding());
  EXPECT_EQ(text.release(), rule + "\nMPI_ABORT was") << "mpirun has paused";
  EXPECT_EQ(text.pass(" something else\nerror: last\r\n"), " something else\nerror: last\r\n");
  EXPECT_EQ(text.cause()->line, "error: last");
  const std::string endless(100'000, '-');
  shown = text.pass(endless);
  shown += text.release();
  EXPECT_EQ(shown, endless);
}

}  // namespace
}  // namespace tasuki::supervisor
