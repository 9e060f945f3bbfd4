// What tasuki-run decides: its command line, the launcher's, hosts, restarts, signals, and which
// text of mpirun it leaves out.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "errors.hpp"
#include "supervisor/host_check.hpp"
#include "supervisor/hostfile.hpp"
#include "supervisor/launch.hpp"
#include "supervisor/launcher_text.hpp"
#include "supervisor/program.hpp"
#include "supervisor/restart.hpp"
#include "supervisor/run_folder.hpp"
#include "supervisor/stop_request.hpp"
#include "temporary_folder.hpp"

namespace tasuki::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(CommandLines, TheFirstOtherWordIsTheProgram) {
  const Settings settings =
      parse_command_line({"-np", "4", "--max-restarts=2", "--verbose", "train", "-np", "--verbose"})
          .settings;
  EXPECT_EQ(settings.np, 4);
  EXPECT_EQ(settings.max_restarts, 2);
  EXPECT_TRUE(settings.is_max_restarts_given);
  EXPECT_TRUE(settings.verbose);
  EXPECT_THAT(settings.program, ElementsAre("train", "-np", "--verbose"));

  const Settings after_dashes = parse_command_line({"-n2", "--", "--odd-name", "-x"}).settings;
  EXPECT_EQ(after_dashes.np, 2);
  EXPECT_FALSE(after_dashes.is_max_restarts_given);
  EXPECT_THAT(after_dashes.program, ElementsAre("--odd-name", "-x"));
}

TEST(CommandLines, ErrorsAreOfUsage) {
  const auto error_of = [](const Words& words) {
    const auto error = testing::caught([&] { parse_command_line(words); });
    if (!error) return std::string("(none)");
    EXPECT_EQ(error->kind(), ErrorKind::usage);
    return std::string(error->what());
  };
  EXPECT_THAT(error_of({}), HasSubstr("no program was given"));
  EXPECT_THAT(error_of({"-np", "2"}), HasSubstr("no program was given"));
  EXPECT_THAT(error_of({"-np", "0", "train"}), HasSubstr("--np: expected an integer from 1"));
  EXPECT_THAT(error_of({"--max-restart", "2", "train"}), HasSubstr("did you mean --max-restarts?"));
  EXPECT_THAT(error_of({"-np", "2", "--min-np", "3", "train"}), HasSubstr("at most -np 2"));
  EXPECT_THAT(error_of({"--launcher", "srun", "--hostfile", "h", "train"}),
              HasSubstr("leave it out"));
  for (const std::string flag : {"-np 4", "--np 4", "-n 4", "-c 4"})
    EXPECT_THAT(error_of({"--mpirun-args", flag, "train"}), HasSubstr("-np N in place of it"));
  for (const std::string flag : {"-H a", "--host a", "--hostfile h", "--machinefile h"})
    EXPECT_THAT(error_of({"--mpirun-args", flag, "train"}), HasSubstr("--hostfile FILE in place"));
  EXPECT_THAT(error_of({"--launcher", "srun", "--mpirun-args", "--ntasks=4", "train"}),
              HasSubstr("-np N in place of it"));
  EXPECT_EQ(error_of({"--launcher", "srun", "--mpirun-args", "-c 4", "train"}), "(none)");
  EXPECT_THAT(error_of({"--mpirun-args", "-x 'A", "train"}), HasSubstr("a quote without its end"));
  EXPECT_THAT(error_of({"--mpirun-args", "-x A\\", "train"}), HasSubstr("a backslash at the end"));
}

TEST(Hostfiles, HaveHostsAndSlots) {
  const auto hosts = parse_hostfile(
      "# a comment\nnode1 slots=4 # more\n\nme@node2.here slots = 2 max_slots=3\nnode3\n", "h");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(names_of(hosts), "node1, node2.here, node3");
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(hosts[1].address, "me@node2.here");
  EXPECT_EQ(hosts[2].slots, std::nullopt);
  EXPECT_EQ(slots_of(hosts), std::nullopt);
  EXPECT_EQ(slots_of({hosts[0], hosts[1]}), 6);
  EXPECT_EQ(slots_of(parse_hostfile(hostfile_text({hosts[0], hosts[1]}), "h")), 6);

  const auto twice = parse_hostfile("a\na slots=2\na\n", "h");
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_EQ(twice[0].slots, 4);
  EXPECT_EQ(parse_hostfile(hostfile_text(twice), "h")[0].slots, 4);
  const auto none = testing::caught([] { parse_hostfile("# node1\n", "the-file"); });
  ASSERT_TRUE(none);
  EXPECT_THAT(none->what(), HasSubstr("the-file: expected a host"));
}

TEST(Hostfiles, FewerHostsTakeFewerRanks) {
  const auto all = parse_hostfile("a slots=4\nb slots=4\nc slots=2\n", "h");
  const std::vector<Host> left = {all[0], all[2]};
  EXPECT_EQ(ranks_on(left, all, 10, {}, 1), 6);
  EXPECT_EQ(ranks_on(left, all, 5, {}, 1), 5);
  EXPECT_EQ(ranks_on(left, all, 10, {}, 7), 0);
  EXPECT_EQ(ranks_on(left, all, 20, {}, 1), 12) << "two on each slot, as before";
  EXPECT_EQ(ranks_on(left, all, 10, 20, 1), 5) << "20 shards cannot be dealt to 6";
  EXPECT_EQ(ranks_on(left, all, 10, 7, 2), 0);
  EXPECT_EQ(ranks_on({}, all, 10, {}, 1), 0);
  const auto unknown = parse_hostfile("a\nb\n", "h");
  EXPECT_EQ(ranks_on({unknown[1]}, unknown, 6, {}, 1), 3);
}

class Launches : public ::testing::Test {
 protected:
  Launches() {
    around.cores = 8;
    around.tune = "/t/mca-params.conf";
    around.start_orted = "/t/start_orted";
    around.exported = {"OMP_NUM_THREADS", "TASUKI_X"};
  }
  std::string command(const Placement& placement) {
    return make_launch(settings, around, placement, {"train", "--epoch", "1 2"}).text();
  }
  Settings settings;
  Surroundings around;
};

TEST_F(Launches, HereNeedLittle) {
  EXPECT_EQ(command({8, "", 8}), "mpirun -np 8 --tune /t/mca-params.conf train --epoch '1 2'");
  EXPECT_EQ(command({2, "", 8}),
            "mpirun -np 2 --tune /t/mca-params.conf --bind-to none train --epoch '1 2'")
      << "each rank has four cores";
  around.is_root = true;
  EXPECT_EQ(command({9, "", 8}),
            "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -np 9 --tune "
            "/t/mca-params.conf --oversubscribe --bind-to none train --epoch '1 2'");
}

TEST_F(Launches, OnOtherHostsTakeVariablesAndTheAgent) {
  EXPECT_EQ(command({4, "hosts", 4}),
            "mpirun -np 4 --tune /t/mca-params.conf --hostfile hosts --launch-agent "
            "/t/start_orted --bind-to none -x OMP_NUM_THREADS -x TASUKI_X train "
            "--epoch '1 2'");
  EXPECT_THAT(command({5, "hosts", 4}), HasSubstr(" --oversubscribe "));
  EXPECT_THAT(command({5, "hosts", std::nullopt}), HasSubstr(" --oversubscribe "));
}

TEST_F(Launches, WordsOfTheUserReplaceOurs) {
  settings = parse_command_line({"--mpirun-args",
                                 "--tune 'my file' --launch-agent orted --map-by ppr:1:node "
                                 "--nooversubscribe",
                                 "train"})
                 .settings;
  EXPECT_EQ(command({4, "hosts", 2}),
            "mpirun -np 4 --hostfile hosts -x OMP_NUM_THREADS -x TASUKI_X --tune 'my file' "
            "--launch-agent orted --map-by ppr:1:node --nooversubscribe train --epoch '1 2'");
}

TEST_F(Launches, InASlurmJobUseItsTasks) {
  around.slurm = SlurmJob{2, 4, 2, 3};
  EXPECT_EQ(default_np(around, {}), 4);
  EXPECT_EQ(command(place(around, 4, {}, "")),
            "mpirun -np 4 --tune /t/mca-params.conf --map-by ppr:2:node:PE=3 --bind-to core -x "
            "OMP_NUM_THREADS -x TASUKI_X train --epoch '1 2'");
  settings.launcher = LauncherKind::srun;
  settings.launcher_words = {"--exclusive"};
  EXPECT_EQ(command(place(around, 4, {}, "")),
            "srun --kill-on-bad-exit=1 --ntasks=4 --mpi=pmix --exclusive train --epoch '1 2'");
}

TEST_F(Launches, RanksFollowFromThePlace) {
  EXPECT_EQ(default_np(around, {}), 8);
  EXPECT_EQ(default_np(around, parse_hostfile("a slots=2\nb slots=3\n", "h")), 5);
  EXPECT_EQ(default_np(around, parse_hostfile("a slots=2\nb\n", "h")), std::nullopt);
  EXPECT_EQ(default_np(around, parse_hostfile("a slots=2\n", "h"), {"--map-by", "ppr:1:node"}),
            std::nullopt);
  EXPECT_EQ(default_np(around, {}, {"--bind-to", "core"}), 8);
}

TEST(RestartCounts, WaitLongerAndBeginAnewAfterProgress) {
  Restarts restarts(8);
  std::vector<std::int64_t> waits;
  while (const auto wait = restarts.next(false)) waits.push_back(wait->count());
  EXPECT_THAT(waits, ElementsAre(1, 2, 4, 8, 16, 32, 60, 60));
  EXPECT_EQ(restarts.count(), 8);
  EXPECT_EQ(restarts.next(true), std::chrono::seconds(1));
  EXPECT_EQ(restarts.count(), 1);
  EXPECT_EQ(Restarts(0).next(true), std::nullopt);
}

TEST(RestartCounts, SomeEndsAreFinal) {
  for (const int code : {0, 64, 65, 66, 78, 79}) EXPECT_TRUE(is_final(code)) << code;
  for (const int code : {1, 69, 70, 73, 74, 75, 76, 134, 137, 139, 205})
    EXPECT_FALSE(is_final(code)) << code;
}

TEST(RestartCounts, LaunchersMayRefuse) {
  EXPECT_TRUE(is_launchers_refusal(1));
  for (const int code : {0, 69, 137, 205, 255}) EXPECT_FALSE(is_launchers_refusal(code)) << code;
}

TEST(StopRequests, TheSecondOfAKindIsUrgent) {
  StopRequest stop(/*is_training=*/true);
  EXPECT_EQ(stop.on_signal(SIGUSR2), StopAction::pass_on);
  EXPECT_FALSE(stop.is_made());
  EXPECT_EQ(stop.on_signal(SIGUSR1), StopAction::save_and_stop);
  EXPECT_EQ(stop.signal(), SIGUSR1);
  EXPECT_EQ(stop.on_signal(SIGUSR1), StopAction::none) << "Slurm may repeat it";
  EXPECT_EQ(stop.on_signal(SIGTERM), StopAction::none) << "it has been asked for already";
  EXPECT_EQ(stop.on_signal(SIGINT), StopAction::none);
  EXPECT_EQ(stop.on_signal(SIGINT), StopAction::end_at_once);
  EXPECT_EQ(stop.signal(), SIGUSR1);
}

TEST(StopRequests, OfOtherProgramsArePassedOn) {
  StopRequest stop(/*is_training=*/false);
  EXPECT_EQ(stop.on_signal(SIGUSR1), StopAction::pass_on);
  EXPECT_FALSE(stop.is_made()) << "it may mean anything";
  EXPECT_EQ(stop.on_signal(SIGINT), StopAction::pass_on);
  EXPECT_EQ(stop.on_signal(SIGINT), StopAction::pass_on);
  EXPECT_EQ(stop.signal(), SIGINT);
}

TEST(StopRequests, ThatAreNotAnsweredAreTheExitCode) {
  StopRequest stop(/*is_training=*/true), other(/*is_training=*/false);
  stop.on_signal(SIGINT);
  other.on_signal(SIGINT);
  for (const int code : {0, 73, 79}) EXPECT_EQ(stop.exit_code(code), code);
  for (const int code : {1, 137}) EXPECT_EQ(stop.exit_code(code), 130);
  for (const int code : {0, 1, 3, 79, 137})
    EXPECT_EQ(other.exit_code(code), code) << "only it knows what it means";
}

const std::string rule(76, '-');
const std::string aborted = rule +
                            "\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
                            "with errorcode 70.\n\nNOTE: invoking MPI_ABORT causes ...\n" +
                            rule + "\n";
const std::string killed = rule +
                           "\nmpirun noticed that process rank 1 with PID 4711 on node node2 "
                           "exited on signal 9\n(Killed).\n" +
                           rule + "\n";
const std::string remarks =
    "[node1:04711] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
    "[node1:04711] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error "
    "messages\n"
    "mpirun: Forwarding signal 10 to job\n"
    "[node1:08285] [[19619,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file "
    "../../../orte/util/show_help.c at line 507\n";

// Whatever the pieces in which it arrives.
std::string pass_in_pieces(LauncherText& text, const std::string& all, std::size_t size) {
  std::string shown;
  for (std::size_t i = 0; i < all.size(); i += size) shown += text.pass(all.substr(i, size));
  return shown + text.release();
}

TEST(LauncherTexts, RepeatsOfAnErrorAreLeftOut) {
  const std::string error = "rank 1 on node2: the disk is full\n";
  for (const std::size_t size : {1u, 7u, 10'000u}) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(pass_in_pieces(text, "warning: hot\n" + aborted + error + remarks + killed, size),
              "warning: hot\n" + error);
    ASSERT_TRUE(text.cause());
    EXPECT_EQ(text.cause()->line + '\n', error);
    EXPECT_EQ(text.cause()->rank, 1);
    EXPECT_EQ(text.cause()->host, "node2");
    EXPECT_TRUE(text.is_cause_last());

    LauncherText all(/*leave_out=*/false);
    EXPECT_EQ(pass_in_pieces(all, aborted + error + remarks + killed, size),
              aborted + error + remarks + killed);
    EXPECT_EQ(all.cause()->line + '\n', error);
    EXPECT_FALSE(all.is_cause_last());
  }
}

// A program may print a line of dashes, which ends nowhere.
TEST(LauncherTexts, ErrorsAreSeenAfterAnUnpairedRule) {
  const std::string error = "rank 1 on node2: the disk is full\n";
  const std::string text_before = rule + "\nepoch 1\n" + error;
  for (const std::size_t size : {1u, 10'000u}) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(pass_in_pieces(text, text_before + aborted + killed, size), text_before);
    EXPECT_EQ(text.cause()->line + '\n', error);
    EXPECT_TRUE(text.is_cause_last());
    LauncherText open(/*leave_out=*/true);
    EXPECT_EQ(pass_in_pieces(open, text_before, size), text_before);
    EXPECT_EQ(open.cause()->line + '\n', error);
    EXPECT_TRUE(open.is_cause_last());
    LauncherText all(/*leave_out=*/false);
    EXPECT_EQ(pass_in_pieces(all, text_before + aborted, size), text_before + aborted);
    EXPECT_EQ(all.cause()->line + '\n', error);
    EXPECT_FALSE(all.is_cause_last());
  }
}

TEST(LauncherTexts, SayWhyARankHasNoError) {
  const auto cause_of = [](const std::string& said) {
    LauncherText text(/*leave_out=*/true);
    EXPECT_EQ(text.pass(rule + '\n' + said + '\n' + rule + '\n'), "");
    return text.cause().value_or(Cause{"(none)", {}, ""});
  };
  LauncherText text(/*leave_out=*/true);
  EXPECT_EQ(text.pass(killed), "");
  EXPECT_EQ(text.cause()->line, "rank 1 on node2: ended by signal 9 (Killed)");
  EXPECT_FALSE(text.is_cause_last());

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

TEST(LauncherTexts, OfSrunSayIt) {
  LauncherText text(/*leave_out=*/true);
  text.pass("srun: error: node1: task 3: Killed\nsrun: error: node1: task 0: Terminated\n");
  EXPECT_EQ(text.cause()->line, "rank 3 on node1: Killed");
  EXPECT_EQ(text.cause()->host, "node1");
}

TEST(LauncherTexts, EverythingElseIsPassedAtOnceAndUnchanged) {
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

TEST(Programs, ContinueInTheirFolder) {
  Program program;
  program.words = {"train", "--init", "w.npz"};
  program.config = {{"out", "result"}, {"resume", "none"}, {"overwrite", "true"}};
  EXPECT_TRUE(program.can_resume());
  EXPECT_THAT(program.words_to_continue("result-2", true),
              ElementsAre("train", "--init", "w.npz", "--out", "result-2", "--resume", "auto",
                          "--overwrite=false"));
  program.config = {{"out", "result"}, {"resume", "old/snapshot"}, {"overwrite", "false"}};
  program.words = {"train", "--resume", "old/snapshot"};
  EXPECT_THAT(program.words_to_continue("result", false),
              ElementsAre("train", "--resume", "old/snapshot", "--out", "result"))
      << "there is nothing else to continue from";
  EXPECT_THAT(
      program.words_to_continue("result", true),
      ElementsAre("train", "--resume", "old/snapshot", "--out", "result", "--resume", "auto"));
  program.words = {"train", "--root", "d", "--", "a.txt"};
  EXPECT_THAT(program.words_to_continue("r", false),
              ElementsAre("train", "--root", "d", "--out", "r", "--", "a.txt"))
      << "what follows -- are no flags";
  program.config["dry-run"] = "true";
  EXPECT_FALSE(program.can_resume());
  program.config = {{"out", "report"}};
  EXPECT_FALSE(program.can_resume());
}

TEST(Programs, SayWhichFlagsAreFixed) {
  Program program;
  program.config = {{"global-batch", "auto"}, {"shards", "none"}};
  EXPECT_FALSE(program.keeps_global_batch());
  EXPECT_EQ(program.shards(), std::nullopt);
  program.config = {{"global-batch", "1200"}, {"shards", "12"}};
  EXPECT_TRUE(program.keeps_global_batch());
  EXPECT_EQ(program.shards(), 12);
}

TEST(RunFolders, AreRecognisedByTheirMark) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  RunFolder run(folder / "result", folder / "old/snapshot_iter_5", "mine");
  EXPECT_FALSE(run.find());
  write("result/about.json", R"({"supervisor": "another"})");
  write("result-2/about.json", "{");
  EXPECT_FALSE(run.find());
  write("result-4/about.json", R"({"supervisor": "mine"})");
  EXPECT_EQ(run.find(), folder / "result-4");
  write("result-5/about.json", R"({"supervisor": "mine"})");
  EXPECT_EQ(run.find(), folder / "result-4") << "as long as it is there";
  std::filesystem::remove_all(folder / "result-5");
  std::filesystem::remove_all(folder / "result-4");
  write("old/about.json", R"({"supervisor": "mine"})");
  EXPECT_EQ(run.find(), folder / "old");
}

TEST(RunFolders, HaveALastState) {
  const testing::TemporaryFolder folder;
  const auto last = [](const std::filesystem::path& path) {
    const auto saved = last_saved(path);
    return saved ? fmt::format("{} {}", saved->path.filename().string(), saved->iteration) : "none";
  };
  EXPECT_EQ(last(folder.path()), "none");
  std::ofstream(folder / "snapshot_iter_20") << "x";
  EXPECT_EQ(last(folder.path()), "snapshot_iter_20 20");
  std::ofstream(folder / "snapshot_iter_100") << "x";
  EXPECT_EQ(last(folder.path()), "snapshot_iter_100 100");
  std::filesystem::create_directories(folder / "checkpoints/iter_120");
  EXPECT_EQ(last(folder.path()), "iter_120 120");
  const testing::TemporaryFolder parts;
  std::ofstream(parts / "snapshot_iter_7.0") << "x";
  EXPECT_EQ(last(parts.path()), "snapshot_iter_7 7");
}

TEST(HostChecks, UseMpirunsRemoteShell) {
  EXPECT_THAT(remote_shell({}),
              ElementsAre("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"));
  EXPECT_THAT(remote_shell({"--mca", "plm_rsh_agent", "none-such : /run/on_node -v"}),
              ElementsAre("/run/on_node", "-v"));
}

TEST(HostChecks, HaveATimeLimit) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "agent") << "#!/bin/sh\ncase $1 in bad) exit 1;; gone) sleep 60;; esac\n";
  std::filesystem::permissions(folder / "agent", std::filesystem::perms::owner_all);
  const Signals signals;
  int signal = 0;
  const auto hosts = parse_hostfile("good\nbad\ngone\nlocalhost\n", "h");
  const auto found = answering(hosts, {folder / "agent"}, std::chrono::seconds(1), signals, signal);
  ASSERT_TRUE(found);
  EXPECT_EQ(names_of(*found), "good, localhost");
  raise(SIGTERM);
  EXPECT_FALSE(answering(hosts, {folder / "agent"}, std::chrono::seconds(30), signals, signal));
  EXPECT_EQ(signal, SIGTERM);
}

}  // namespace
}  // namespace tasuki::supervisor
