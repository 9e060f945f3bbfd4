// The timeline of all ranks, as its readers see it.
#include "training/extensions/trace_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "communicator/registry.hpp"
#include "core/file.hpp"
#include "small_run.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using nlohmann::json;
using testing::SmallRun;
using testing::TemporaryFolder;

struct TraceFileTest : ::testing::Test {
  std::unique_ptr<Communicator> comm = create_communicator("auto");
  TemporaryFolder folder{comm.get()};
  const std::filesystem::path file = folder / "new/trace.json";

  // 97 examples in batches of 7: 14 / ranks, rounded up, iterations in an epoch.
  void train(TraceSettings settings, double epochs = 2) {
    SmallRun run(folder / "out", comm.get(), {.epochs = epochs});
    settings.file = file;
    run.trainer->extend(trace_file(settings));
    run.trainer->run();
    comm->barrier();
  }
  json read() const { return testing::json_in(file); }
};

// Events of a rank by name.
std::map<std::string, std::vector<json>> events_of(const json& trace, int rank) {
  std::map<std::string, std::vector<json>> events;
  for (const json& event : trace.at("traceEvents"))
    if (event.at("pid") == rank && event.at("ph") != "M") events[event.at("name")].push_back(event);
  return events;
}

TEST_F(TraceFileTest, ContainsStepPartsOfEachRank) {
  train({.skipped = 2, .steps = 3});
  const json trace = read();
  EXPECT_EQ(trace.at("otherData").at("first_iteration"), 3);
  EXPECT_EQ(trace.at("otherData").at("steps"), 3);
  EXPECT_EQ(trace.at("otherData").at("ranks").size(), static_cast<std::size_t>(comm->size()));
  for (int rank = 0; rank < comm->size(); ++rank) {
    SCOPED_TRACE(rank);
    auto events = events_of(trace, rank);
    for (const std::string part : {"input", "forward", "backward", "update"})
      EXPECT_EQ(events[part].size(), 3U) << part;
    EXPECT_EQ(events["exchange"].size(), comm->size() > 1 ? 3U : 0U);
    EXPECT_EQ(events["computing"].size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      // Parts follow each other; times have a precision of a nanosecond.
      const json &forward = events["forward"][i], &backward = events["backward"][i];
      const double end = forward.at("ts").get<double>() + forward.at("dur").get<double>();
      EXPECT_NEAR(end, backward.at("ts").get<double>(), 2e-3);
      EXPECT_GE(events["computing"][i].at("ts"), 0);
    }
    EXPECT_EQ(events["sum of a range"].size(), comm->size() > 1 ? 3U : 0U);
    EXPECT_EQ(events["complete"].size(), comm->size() > 1 ? 3U : 0U);
  }
}

TEST_F(TraceFileTest, NamesItsRows) {
  train({.skipped = 0, .steps = 2});
  std::map<int, std::set<std::string>> rows;
  std::map<int, std::string> processes;
  const json trace = read();
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name")
      rows[event.at("pid")].insert(event.at("args").at("name").get<std::string>());
    if (event.at("name") == "process_name")
      processes[event.at("pid")] = event.at("args").at("name");
  }
  ASSERT_EQ(std::ssize(rows), comm->size());
  for (const auto& [rank, names] : rows) {
    EXPECT_TRUE(names.contains("phases") && names.contains("step"));
    EXPECT_EQ(names.contains("exchange"), comm->size() > 1);
    EXPECT_THAT(processes[rank], ::testing::StartsWith(fmt::format("rank {} (", rank)));
  }
}

// All ranks are on one machine, whose clock they share: what the correction finds is its error.
TEST_F(TraceFileTest, CorrectsClocksWithinTheError) {
  train({.skipped = 1, .steps = 2});
  const json trace = read();
  for (const json& rank : trace.at("otherData").at("ranks")) {
    EXPECT_LE(std::abs(rank.at("correction_us").get<double>()),
              rank.at("error_us").get<double>() + 1e-3);
    EXPECT_LT(rank.at("error_us").get<double>(), 1e6);
  }
}

TEST_F(TraceFileTest, NotesMemoryOfEachRank) {
  train({.skipped = 1, .steps = 2});
  for (const json& rank : read().at("otherData").at("ranks")) {
    const json& memory = rank.at("memory");
    const auto bytes = [&](const char* name) { return memory.at(name).get<std::int64_t>(); };
    EXPECT_GT(bytes("weights"), 0);
    EXPECT_GE(bytes("gradients"), bytes("weights"));
    EXPECT_EQ(bytes("rounded"), 0);
    EXPECT_LE(bytes("states"), bytes("all_states"));
    EXPECT_GT(bytes("step"), 0);
    EXPECT_GT(bytes("process"), bytes("weights") + bytes("gradients") + bytes("step"));
  }
}

TEST_F(TraceFileTest, IsWrittenAtTheEndOfAShorterRun) {
  train({.skipped = 3, .steps = 1'000'000}, 1);
  const json trace = read();
  EXPECT_EQ(trace.at("otherData").at("steps"),
            (97 + 7 * comm->size() - 1) / (7 * comm->size()) - 3);
}

TEST_F(TraceFileTest, IsEmptyWithoutFurtherSteps) {
  train({.skipped = 1000, .steps = 5}, 1);
  EXPECT_EQ(read_file(file), "");
}

TEST_F(TraceFileTest, ReportsUnwritablePathBeforeTheFirstStep) {
  SmallRun run(folder / "out", comm.get(), {.epochs = 1});
  run.trainer->extend(trace_file({.file = "/dev/null/trace.json"}));
  EXPECT_THROW(run.trainer->run(), Error);
  EXPECT_EQ(run.trainer->updater().iteration(), 0);
}

}  // namespace
}  // namespace tasuki
