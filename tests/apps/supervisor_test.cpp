// What tasuki-run decides: about the program, its folder, restarts and signals.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/file.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/supervisor/incidents.hpp"
#include "tools/supervisor/program.hpp"
#include "tools/supervisor/restart.hpp"
#include "tools/supervisor/run_folder.hpp"
#include "tools/supervisor/stop_request.hpp"

namespace tasuki::supervisor {
namespace {

using ::testing::ElementsAre;

TEST(RestartCounts, BackOffAndResetAfterProgress) {
  Restarts restarts(8);
  std::vector<std::int64_t> waits;
  while (const auto wait = restarts.next(false)) waits.push_back(wait->count());
  EXPECT_THAT(waits, ElementsAre(1, 2, 4, 8, 16, 32, 60, 60));
  EXPECT_EQ(restarts.count(), 8);
  waits.clear();
  for (const bool has_progressed : {true, false, false, true, true, false})
    waits.push_back(restarts.next(has_progressed)->count());
  EXPECT_THAT(waits, ElementsAre(0, 2, 4, 0, 0, 2)) << "a pause is for failures in a row";
  EXPECT_EQ(restarts.count(), 2);
  EXPECT_EQ(Restarts(0).next(true), std::nullopt);
}

TEST(RestartCounts, TreatSomeExitsAsFinal) {
  for (const int code : {0, 64, 65, 66, 73, 78, 79}) EXPECT_TRUE(is_final(code)) << code;
  for (const int code : {1, 69, 70, 74, 75, 76, 134, 137, 139, 205})
    EXPECT_FALSE(is_final(code)) << code;
}

TEST(RestartCounts, RecogniseRefusalsOfLaunchers) {
  EXPECT_TRUE(is_launchers_refusal(1));
  for (const int code : {0, 69, 137, 205, 255}) EXPECT_FALSE(is_launchers_refusal(code)) << code;
}

TEST(RestartCounts, RecogniseMissingDaemons) {
  for (const int code : {126, 127}) EXPECT_TRUE(is_daemon_missing(code)) << code;
  for (const int code : {1, 137, 255}) EXPECT_FALSE(is_daemon_missing(code)) << code;
}

TEST(StopRequests, BecomeUrgentWhenRepeated) {
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

TEST(StopRequests, ArePassedOnToOtherPrograms) {
  StopRequest stop(/*is_training=*/false);
  EXPECT_EQ(stop.on_signal(SIGUSR1), StopAction::pass_on);
  EXPECT_FALSE(stop.is_made()) << "it may mean anything";
  EXPECT_EQ(stop.on_signal(SIGINT), StopAction::pass_on);
  EXPECT_EQ(stop.on_signal(SIGINT), StopAction::pass_on);
  EXPECT_EQ(stop.signal(), SIGINT);
}

TEST(StopRequests, DetermineTheExitCodeWhenUnanswered) {
  StopRequest stop(/*is_training=*/true), other(/*is_training=*/false);
  stop.on_signal(SIGINT);
  other.on_signal(SIGINT);
  for (const int code : {0, 73, 79}) EXPECT_EQ(stop.exit_code(code), code);
  for (const int code : {1, 137}) EXPECT_EQ(stop.exit_code(code), 130);
  for (const int code : {0, 1, 3, 79, 137})
    EXPECT_EQ(other.exit_code(code), code) << "only it knows what it means";
}

// As after `| head -1`.
TEST(StopRequests, ShortenTheTimeToSaveAfterSigpipe) {
  StopRequest training(/*is_training=*/true);
  EXPECT_EQ(training.time_to_save(120), 120);
  EXPECT_EQ(training.on_signal(SIGPIPE), StopAction::save_and_stop);
  EXPECT_EQ(training.time_to_save(120), 3);
  EXPECT_EQ(training.time_to_save(1), 1);
  EXPECT_EQ(training.exit_code(79), 79);
  EXPECT_EQ(training.exit_code(1), 128 + SIGPIPE);
  StopRequest other(/*is_training=*/false);
  EXPECT_EQ(other.on_signal(SIGPIPE), StopAction::end_at_once);
  EXPECT_EQ(other.exit_code(1), 128 + SIGPIPE);
  StopRequest stopped(/*is_training=*/true);
  stopped.on_signal(SIGINT);  // which has ended `| tee`, too
  EXPECT_EQ(stopped.on_signal(SIGPIPE), StopAction::none);
  EXPECT_EQ(stopped.time_to_save(120), 120);
}

TEST(Programs, ResumeInTheirFolder) {
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
  EXPECT_THAT(program.words_to_continue("result", true),
              ElementsAre("train", "--out", "result", "--resume", "auto"));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", "--out", "old", "-b", "8"}, {"train", "-b", "8", "--out=old", "--out", "b"}}) {
    program.words = words;
    EXPECT_THAT(program.words_to_continue("result-2", true),
                ElementsAre("train", "-b", "8", "--out", "result-2", "--resume", "auto"))
        << "each flag once";
  }
  program.words = {"train", "--output", "o", "--", "--out", "x"};
  EXPECT_THAT(
      program.words_to_continue("r", true),
      ElementsAre("train", "--output", "o", "--out", "r", "--resume", "auto", "--", "--out", "x"));
  program.words = {"train", "--root", "d", "--", "a.txt"};
  EXPECT_THAT(program.words_to_continue("r", false),
              ElementsAre("train", "--root", "d", "--out", "r", "--", "a.txt"))
      << "what follows -- is not a flag";
  program.config["dry-run"] = "true";
  EXPECT_FALSE(program.can_resume());
  program.config = {{"out", "report"}};
  EXPECT_FALSE(program.can_resume());
}

TEST(Programs, ReportFixedFlags) {
  Program program;
  program.config = {{"global-batch", "auto"}, {"shards", "none"}};
  EXPECT_FALSE(program.keeps_global_batch());
  EXPECT_EQ(program.shards(), std::nullopt);
  program.config = {{"global-batch", "1200"}, {"shards", "12"}};
  EXPECT_TRUE(program.keeps_global_batch());
  EXPECT_EQ(program.shards(), 12);
}

TEST(RunFolders, AreRecognisedByTheirMarker) {
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
  EXPECT_FALSE(run.taken_at());
  write("result-4/about.json", R"({"supervisor": "mine"})");
  EXPECT_EQ(run.find(), folder / "result-4");
  const auto first = run.taken_at();
  EXPECT_TRUE(first);
  EXPECT_EQ(run.taken_at(), first);
  std::filesystem::last_write_time(folder / "result-4/about.json",
                                   *first + std::chrono::milliseconds(5));
  EXPECT_NE(run.taken_at(), first) << "by another start";
  write("result-5/about.json", R"({"supervisor": "mine"})");
  EXPECT_EQ(run.find(), folder / "result-4") << "as long as it is there";
  std::filesystem::remove_all(folder / "result-5");
  std::filesystem::remove_all(folder / "result-4");
  write("old/about.json", R"({"supervisor": "mine"})");
  EXPECT_EQ(run.find(), folder / "old");
}

TEST(RunFolders, ReportTheLastState) {
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

// Of a line that a full disk has cut the rest follows later.
TEST(IncidentLogs, KeepLinesIntactOnAFullDisk) {
  const testing::TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  Incidents incidents;
  incidents.add("start", {{"command", std::string(200, 'x')}});
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  incidents.write_to(folder.path());
  EXPECT_EQ(std::filesystem::file_size(folder / incidents_file), 100u);
  incidents.add("failure", {{"exit_code", 70}});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  incidents.add("end", {{"exit_code", 0}});
  std::vector<std::string> events;
  std::istringstream lines(read_file(folder / incidents_file));
  for (std::string line; std::getline(lines, line);)
    events.push_back(testing::json_from(line).at("event"));
  EXPECT_THAT(events, ElementsAre("start", "failure", "end"));
}

}  // namespace
}  // namespace tasuki::supervisor
