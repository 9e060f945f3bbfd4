// When steps are recorded and repeated, with a recorder that only counts.
#include "tasuki/training/recording/recorded_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasuki/core/error.hpp"

namespace tasuki {
namespace {

struct Counted : Recording {
  explicit Counted(int& replays) : replays(replays) {}
  void replay() override { ++replays; }
  int& replays;
};

class RecordedStepsTest : public ::testing::Test {
 protected:
  RecordedSteps make(GraphMode mode, RecordedSteps::Agree agree = nullptr) {
    const auto record = [this](const RecordedSteps::Work& work) -> std::unique_ptr<Recording> {
      ++attempts;
      if (!failure.empty()) fail(ErrorKind::unavailable, "{}", failure);
      if (!can_record) return nullptr;
      is_recording = true;
      work();
      is_recording = false;
      return std::make_unique<Counted>(replays);
    };
    return {mode, record, std::move(agree)};
  }
  RecordedSteps::Work work = [this] { ++(is_recording ? recorded : done); };
  void run(RecordedSteps& steps, const RecordedSteps::Key& key, int times) {
    for (int i = 0; i < times; ++i) steps.run(key, work);
  }

  bool can_record = true, is_recording = false;
  std::string failure;
  int attempts = 0, recorded = 0, done = 0, replays = 0;
};

TEST_F(RecordedStepsTest, WarmUpThenOneRecordingForAll) {
  RecordedSteps steps = make(GraphMode::automatic);
  run(steps, {100, 200}, 10);
  EXPECT_EQ(done, 3);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(replays, 7);  // each step is done once
}

TEST_F(RecordedStepsTest, EachKeyHasARecordingOfItsOwn) {
  RecordedSteps steps = make(GraphMode::on);
  run(steps, {100, 200}, 5);
  run(steps, {100, 150}, 5);
  run(steps, {50, 150}, 1);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(done, 3 + 1 + 1);  // later keys need less warming up
  EXPECT_EQ(replays, 2 + 4);
  EXPECT_EQ(steps.recordings(), 2);
}

TEST_F(RecordedStepsTest, AFailureIsRememberedAndTheStepIsDone) {
  RecordedSteps steps = make(GraphMode::automatic);
  failure = "the stream is busy";
  run(steps, {1, 1}, 6);
  run(steps, {2, 2}, 6);
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(done, 12);
  EXPECT_FALSE(steps.records());
  EXPECT_EQ(steps.reason(), "the stream is busy");
}

TEST_F(RecordedStepsTest, StepsThatDifferBetweenRanksAreDoneAsTheyAre) {
  RecordedSteps steps = make(GraphMode::automatic);
  for (int i = 0; i < 4; ++i) {
    steps.run({100, 200}, work);
    constexpr bool is_alike = false;
    steps.run({100, 200}, work, is_alike);
  }
  EXPECT_EQ(done, 3 + 4);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(replays, 1);
}

TEST_F(RecordedStepsTest, NobodyRepeatsWhatAnotherRankCouldNotRecord) {
  bool others = true;
  int votes = 0;
  const auto agree = [&](bool yes) {
    ++votes;
    return yes && others;
  };
  RecordedSteps steps = make(GraphMode::automatic, agree);
  run(steps, {1, 1}, 4);
  EXPECT_EQ(replays, 1);
  others = false;
  run(steps, {2, 2}, 4);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(replays, 1);
  EXPECT_EQ(done, 3 + 4);
  EXPECT_EQ(steps.reason(), "another rank could not record its part");
  run(steps, {1, 1}, 2);  // others do as they are, too
  EXPECT_EQ(replays, 1);
  EXPECT_EQ(votes, 2);
}

// The others are asked also when this rank failed: they wait for its answer.
TEST_F(RecordedStepsTest, AFailureIsToldToOtherRanks) {
  std::vector<bool> votes;
  RecordedSteps steps = make(GraphMode::automatic, [&](bool yes) {
    votes.push_back(yes);
    return yes;
  });
  failure = "the stream is busy";
  run(steps, {1, 1}, 6);
  EXPECT_EQ(votes, std::vector<bool>{false});
  EXPECT_EQ(steps.reason(), "the stream is busy");
}

TEST_F(RecordedStepsTest, DevicesThatDoNotRecord) {
  RecordedSteps steps = make(GraphMode::automatic);
  can_record = false;
  run(steps, {1, 1}, 6);
  EXPECT_EQ(done, 6);
  EXPECT_EQ(steps.reason(), "the device does not record");
}

TEST_F(RecordedStepsTest, AskedForAndImpossibleIsAnError) {
  RecordedSteps steps = make(GraphMode::on);
  failure = "the stream is busy";
  run(steps, {1, 1}, 3);
  try {
    run(steps, {1, 1}, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the stream is busy"));
  }
  EXPECT_THROW(make(GraphMode::on).refuse("a hook"), Error);
}

TEST_F(RecordedStepsTest, OffAndRefusedAndForgotten) {
  RecordedSteps off = make(GraphMode::off);
  off.refuse("not asked for");
  run(off, {1, 1}, 9);
  EXPECT_EQ(attempts, 0);
  EXPECT_EQ(off.reason(), "");

  RecordedSteps refused = make(GraphMode::automatic);
  run(refused, {1, 1}, 5);
  refused.refuse("a hook computes on the host");
  run(refused, {1, 1}, 4);
  EXPECT_EQ(replays, 2);
  EXPECT_EQ(done, 9 + 3 + 4);

  RecordedSteps changed = make(GraphMode::automatic);
  run(changed, {1, 1}, 5);
  changed.forget();
  run(changed, {1, 1}, 3);
  EXPECT_EQ(changed.recordings(), 2);
}

}  // namespace
}  // namespace tasuki
