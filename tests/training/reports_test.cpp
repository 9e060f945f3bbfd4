// What people and programs read: the log, the table, the progress bar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <thread>

#include "core/file.hpp"
#include "core/json.hpp"
#include "printed.hpp"
#include "scripted_updater.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/print_report.hpp"
#include "training/extensions/progress_bar.hpp"
#include "training/extensions/table_layout.hpp"

namespace tasuki {
namespace {

using testing::contents_of;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::PseudoTerminal;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;
using testing::transfer;
using Json = nlohmann::ordered_json;

// Loss 10, 20, 30, ... over 1, 2, 3, ... examples; the third iteration also observes a value.
void script(std::int64_t iteration, Observation& observation) {
  const auto i = static_cast<double>(iteration);
  observation.add_sum("main/loss", 10 * i * i, iteration);
  observation.add_sum("main/accuracy", 1, 2);
  if (iteration == 3) observation.set("lr", 0.1);
}

class Reports : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(double epochs, std::optional<std::int64_t> iterations = {},
                                ScriptedUpdater::Script what = script) {
    auto trainer = std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(2, what),
                                             stop_after(epochs, iterations), folder / "out");
    log = &trainer->extend(std::make_unique<LogReport>());
    return trainer;
  }
  Json read_log() { return parse_ordered_json(read_file(folder / "out/log"), "the log"); }

  TemporaryFolder folder;
  LogReport* log = nullptr;
};

TEST_F(Reports, LogHasChainersFormat) {
  make(2)->run();
  Json entries = read_log();
  ASSERT_EQ(entries.size(), 2U);
  for (Json& entry : entries) {
    EXPECT_GT(entry["elapsed_time"].get<double>(), 0);
    entry["elapsed_time"] = 0.5;
  }
  // Means over examples: (10 * 1 + 20 * 2) / 3 and (30 * 3 + 40 * 4) / 7.
  EXPECT_EQ(json_text(entries, 4), R"([
    {
        "main/accuracy": 0.5,
        "main/loss": 16.666666666666668,
        "epoch": 1,
        "iteration": 2,
        "elapsed_time": 0.5
    },
    {
        "lr": 0.1,
        "main/accuracy": 0.5,
        "main/loss": 35.714285714285715,
        "epoch": 2,
        "iteration": 4,
        "elapsed_time": 0.5
    }
])");
  EXPECT_THAT(read_file(folder / "out/log"), ::testing::StartsWith("[\n    {\n        \"main/"));
}

TEST_F(Reports, LogIsWrittenForACutRun) {
  make(10, 3)->run();
  const Json entries = read_log();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1]["iteration"], 3);
  EXPECT_EQ(entries[1]["epoch"], 1);
  EXPECT_EQ(entries[1]["main/loss"], 30);
}

TEST_F(Reports, LogIsTheSameAfterResumingACutRun) {
  make(3)->run();
  const Json whole = read_log();
  for (const std::int64_t cut : {1, 2, 3, 5}) {
    const auto first = make(3, cut);
    first->run();
    const auto second = make(3);
    transfer(*first, *second, folder / "state");
    second->run();
    Json resumed = read_log();
    ASSERT_EQ(resumed.size(), whole.size()) << cut;
    double elapsed = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_GT(resumed[i]["elapsed_time"], elapsed);  // goes on from the first run's
      elapsed = resumed[i]["elapsed_time"];
      resumed[i]["elapsed_time"] = whole[i]["elapsed_time"];
    }
    EXPECT_EQ(resumed, whole) << cut;
  }
}

TEST_F(Reports, SnapshotsHoldTheNewestEntriesOfALargeLog) {
  const auto reports_a_long_name = [](std::int64_t iteration, Observation& observation) {
    script(iteration, observation);
    observation.set(std::string(5 << 20, 'n'), 1);
  };
  const auto first = make(12, {}, reports_a_long_name);
  first->run();
  const auto second = make(13, {}, script);
  ::testing::internal::CaptureStderr();
  transfer(*first, *second, folder / "state");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the log has 12 entries, of which snapshots hold the newest 6 (48 MiB"));
  second->run();
  const Json resumed = read_log();
  ASSERT_EQ(resumed.size(), 7U);
  EXPECT_EQ(resumed[0]["epoch"], 7);
  EXPECT_EQ(resumed[6]["epoch"], 13);
  // The others are kept.
  const Json longer = Json::parse(read_file(folder / "out/log.before_iter_14"));
  ASSERT_EQ(longer.size(), 12U);
  EXPECT_EQ(longer[0]["epoch"], 1);
}

TEST_F(Reports, SupportOtherTriggersAndNames) {
  Trainer trainer(std::make_unique<ScriptedUpdater>(2, script), stop_after(2), folder / "out");
  trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration), "steps.json"));
  trainer.run();
  EXPECT_EQ(Json::parse(read_file(folder / "out/steps.json")).size(), 4U);
}

TEST_F(Reports, NonFiniteValuesAreNull) {
  make(1, {}, [](std::int64_t, Observation& observation) {
    observation.add_sum("main/loss", std::nan(""), 1);
    observation.add_sum("huge", std::numeric_limits<double>::infinity(), 1);
    observation.add_sum("of no example", 0, 0);
  })->run();
  const Json entries = read_log();
  EXPECT_TRUE(entries[0]["main/loss"].is_null());
  EXPECT_TRUE(entries[0]["huge"].is_null());
  EXPECT_FALSE(entries[0].contains("of no example"));
}

TEST_F(Reports, LogIsCompleteAfterTemporaryWriteErrors) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  make(2, {}, [&](std::int64_t iteration, Observation& observation) {
    rlimit limit = before;
    if (iteration <= 2) limit.rlim_cur = 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    observation.add_sum("main/loss", 1, 1);
  })->run();
  EXPECT_EQ(read_log().size(), 2U);

  const std::string complete = read_file(folder / "out/log");
  const auto trainer = make(1, {}, [&](std::int64_t, Observation&) {
    rlimit limit = before;
    limit.rlim_cur = 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  });
  const std::string message = error_of([&] { trainer->run(); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(message, HasSubstr("cannot write"));
  EXPECT_EQ(read_file(folder / "out/log"), complete);
}

// However often it is tried, which is once a second.
TEST_F(Reports, TwoWarningsFrameTheTimeWithoutALog) {
  std::filesystem::create_directories(folder / "out/log");  // in the way
  Trainer trainer(std::make_unique<ScriptedUpdater>(4, script), stop_after(1), folder / "out");
  trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration)));
  trainer.extend(make_extension("clear", [&](Trainer& running) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    if (running.updater().iteration() == 2) std::filesystem::remove(folder / "out/log");
  }));
  ::testing::internal::CaptureStderr();
  trainer.run();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              MatchesRegex("warning: [^\n]*out/log: [^\n]*; training continues\n"
                           "warning: [^\n]*out/log can be written again, and has all entries\n"));
  EXPECT_EQ(read_log().size(), 4U);
}

TEST_F(Reports, FrequentEntriesAreWrittenTogether) {
  Trainer trainer(std::make_unique<ScriptedUpdater>(2, script), stop_after(1000), folder / "out");
  trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration)));
  std::size_t versions = 0;
  std::filesystem::file_time_type last{};
  trainer.extend(make_extension("watch", [&](Trainer&) {
    const auto now = std::filesystem::last_write_time(folder / "out/log");
    versions += now != last ? 1 : 0;
    last = now;
  }));
  trainer.run();
  EXPECT_LT(static_cast<double>(versions), trainer.elapsed_time() + 2);
  EXPECT_EQ(read_log().size(), 2000U);
}

TEST_F(Reports, LogIsCompleteAfterAnException) {
  const auto run_with = [&](auto&& update, auto&& extension) {
    Trainer trainer(std::make_unique<ScriptedUpdater>(2, update), stop_after(1000), folder / "out");
    trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration)));
    trainer.extend(make_extension("faulty", extension));
    return error_of([&] { trainer.run(); });
  };
  const auto nothing = [](Trainer&) {};
  EXPECT_EQ(run_with(
                [](std::int64_t iteration, Observation& seen) {
                  if (iteration == 8) fail(ErrorKind::io, "in an update");
                  seen.add_sum("main/loss", 1, 1);
                },
                nothing),
            "in an update");
  EXPECT_EQ(read_log().size(), 7U);
  EXPECT_EQ(run_with(script,
                     [](Trainer& trainer) {
                       if (trainer.updater().iteration() == 9) fail(ErrorKind::io, "in another");
                     }),
            "in another");
  EXPECT_EQ(read_log().size(), 9U);
}

// What was thrown first is what is told, whatever fails after it.
TEST_F(Reports, SaveErrorsDoNotHideTheFirstError) {
  Trainer trainer(std::make_unique<ScriptedUpdater>(2, script), stop_after(1000), folder / "out");
  trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration)));
  trainer.extend(make_extension("faulty", [&](Trainer& running) {
    if (running.updater().iteration() < 5) return;
    std::filesystem::remove_all(folder / "out");
    write_file(folder / "out", "in the way");
    fail(ErrorKind::io, "the first");
  }));
  EXPECT_EQ(error_of([&] { trainer.run(); }), "the first");
}

TEST_F(Reports, TableHasChainersColumns) {
  const TableLayout report({"epoch", "main/loss", "validation/main/accuracy", "iteration"},
                           unlimited_width);
  EXPECT_EQ(report.header(), "epoch       main/loss   validation/main/accuracy  iteration ");
  EXPECT_EQ(report.row({{"epoch", 1},
                        {"main/loss", 0.192345678},
                        {"validation/main/accuracy", 0.97},
                        {"iteration", 1234567},
                        {"elapsed_time", 3}}),
            "1           0.192346    0.97                      1234567     ");
  EXPECT_EQ(report.row({{"epoch", 12}, {"main/loss", 1.5e-7}}),
            "12          1.5e-07                                           ");
  EXPECT_EQ(report.row({{"main/loss", nullptr}}),
            "            nan                                               ");
}

TEST_F(Reports, TableHasNoEscapesInAFile) {
  std::FILE* out = std::tmpfile();
  const auto first = make(2, 3);
  first->extend(
      std::make_unique<PrintReport>(std::vector<std::string>{"epoch", "lr"}, "LogReport", out));
  first->run();
  EXPECT_EQ(contents_of(out),
            "epoch       lr        \n"
            "1                       \n"
            "1           0.1         \n");
  std::fclose(out);

  // Resumed: the rows from before appear again, the one of the cut is complete now.
  out = std::tmpfile();
  const auto second = make(2);
  second->extend(
      std::make_unique<PrintReport>(std::vector<std::string>{"epoch", "lr"}, "LogReport", out));
  transfer(*first, *second, folder / "state");
  second->run();
  EXPECT_EQ(contents_of(out),
            "epoch       lr        \n"
            "1                       \n"
            "2           0.1         \n");
  std::fclose(out);
}

TEST_F(Reports, TableRequiresItsLog) {
  const auto trainer = make(1);
  trainer->extend(std::make_unique<PrintReport>(std::vector<std::string>{"epoch"}, "Logbook"));
  EXPECT_THAT(error_of([&] { trainer->run(); }), HasSubstr("Logbook"));
}

TEST_F(Reports, ProgressBarHasFourLines) {
  EXPECT_EQ(ProgressBar::draw({.iteration = 300,
                               .epoch_detail = 0.5,
                               .length = {20, std::nullopt},
                               .steps_per_epoch = 600,
                               .iterations_per_second = 30}),
            "     total [#.................................................]   2.50%\n"
            "this epoch [#########################.........................]  50.00%\n"
            "       300 iter, 0 epoch / 20 epochs\n"
            "        30 iters/sec. Estimated time to finish: 0:06:30.\n");
  EXPECT_EQ(ProgressBar::draw({.iteration = 900,
                               .epoch_detail = 1.5,
                               .length = {20, 1000},
                               .steps_per_epoch = 600,
                               .iterations_per_second = 1.0 / 1800}),
            "     total [#############################################.....]  90.00%\n"
            "this epoch [#########################.........................]  50.00%\n"
            "       900 iter, 1 epoch / 1000 iterations\n"
            "0.00055556 iters/sec. Estimated time to finish: 2 days, 2:00:00.\n");
  EXPECT_THAT(ProgressBar::draw({}), HasSubstr("Estimated time to finish: unknown."));
}

TEST_F(Reports, ProgressBarIsSilentInAFile) {
  std::FILE* out = std::tmpfile();
  const auto trainer = make(2);
  trainer->extend(std::make_unique<ProgressBar>(0.0, out));
  trainer->run();
  EXPECT_EQ(std::ftell(out), 0);
  std::fclose(out);
}

TEST(ProgressBarOnTerminal, DrawsAndCleansUp) {
  const TemporaryFolder folder;
  const PseudoTerminal terminal;
  Trainer trainer(std::make_unique<ScriptedUpdater>(2), stop_after(1), folder / "out");
  trainer.extend(std::make_unique<ProgressBar>(0.0, terminal.out));
  trainer.run();
  const std::string text = terminal.read_all();
  EXPECT_THAT(text, ::testing::StartsWith("\033[J     total ["));
  EXPECT_THAT(text, HasSubstr("100.00%"));
  EXPECT_THAT(text, ::testing::EndsWith("\033[4A\033[J"));
  {
    Trainer broken(std::make_unique<ScriptedUpdater>(2), stop_after(1), folder / "out");
    broken.extend(std::make_unique<ProgressBar>(0.0, terminal.out));
    broken.extend(make_extension(
        "break", [](Trainer&) { fail(ErrorKind::io, "broken"); }, 0));
    EXPECT_EQ(error_of([&] { broken.run(); }), "broken");
  }
  EXPECT_THAT(terminal.read_all(), ::testing::EndsWith("\033[4A\033[J"));
}

}  // namespace
}  // namespace tasuki
