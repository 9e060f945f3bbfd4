// Late values, actions after a step, revisions: without a recorder, and with one that only notes
// what it is asked.
#include "tensor/late_values.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensor/recorder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;

std::vector<double> values_of(const Tensor& x) {
  const auto span = x.span<double>();
  return {span.begin(), span.end()};
}

// Draws 10, 11, ... from `first` on.
struct Counting {
  double first = 10;
  int draws = 0;
  LateValues<double> values{[this](std::span<double> out) {
    ++draws;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = first + static_cast<double>(i);
  }};
};

TEST(LateValues, AreComputedAtEachCallOutsideAStep) {
  Counting counting;
  const Tensor before = counting.values.on(Device::cpu(), 2);
  counting.first = 20;
  const Tensor after = counting.values.on(Device::cpu(), 3);
  EXPECT_THAT(values_of(before), ElementsAre(10, 11));
  EXPECT_THAT(values_of(after), ElementsAre(20, 21, 22));
  EXPECT_EQ(counting.draws, 2);
}

TEST(LateValues, AreComputedOncePerStep) {
  Counting counting;
  Tensor before;
  {
    const StepScope step;
    before = counting.values.on(Device::cpu(), 2);
    counting.first = 20;
    {
      const StepScope part;
      EXPECT_THAT(values_of(counting.values.on(Device::cpu(), 2)), ElementsAre(10, 11));
    }
    EXPECT_THAT(counting.values.on_host(2), ElementsAre(10, 11));
    EXPECT_THROW(counting.values.on(Device::cpu(), 3), Error);
    EXPECT_EQ(counting.draws, 1);
  }
  const StepScope next;
  EXPECT_THAT(values_of(counting.values.on(Device::cpu(), 3)), ElementsAre(20, 21, 22));
  EXPECT_THAT(values_of(before), ElementsAre(10, 11));  // who keeps them has them
}

TEST(LateValues, AreCarriedOnlyByARecorder) {
  const Counting counting;
  EXPECT_FALSE(counting.values.on_if_carried(Device::cpu(), 1));
  const StepScope step;
  EXPECT_FALSE(counting.values.on_if_carried(Device::cpu(), 1));
  EXPECT_EQ(counting.draws, 0);
}

TEST(AfterStep, RunsOnceAfterASuccessfulStep) {
  std::vector<int> done;
  const AfterStep one([&] { done.push_back(1); }), two([&] { done.push_back(2); });
  {
    StepScope step;
    two.request();
    one.request();
    two.request();
    {
      StepScope part;
      one.request();
      part.succeeded();
    }
    EXPECT_TRUE(done.empty());
    step.succeeded();
    EXPECT_THAT(done, ElementsAre(2, 1));
  }
  {
    const StepScope failing;
    one.request();
  }
  {
    StepScope without;
    without.succeeded();
  }
  EXPECT_THAT(done, ElementsAre(2, 1));
  one.request();  // outside of any
  EXPECT_THAT(done, ElementsAre(2, 1, 1));
}

TEST(AfterStep, IsSkippedWhenItsOwnerIsGone) {
  bool is_done = false;
  StepScope step;
  {
    const AfterStep short_lived([&] { is_done = true; });
    short_lived.request();
  }
  step.succeeded();
  EXPECT_FALSE(is_done);
}

TEST(StepScope, HasItsOwnNumberInEachThread) {
  EXPECT_FALSE(StepScope::is_open());
  const StepScope step;
  const std::uint64_t here = StepScope::number();
  std::uint64_t there = here;
  std::thread([&] {
    EXPECT_FALSE(StepScope::is_open());
    const StepScope other;
    there = StepScope::number();
  }).join();
  EXPECT_NE(here, 0U);
  EXPECT_NE(there, here);
  EXPECT_EQ(StepScope::number(), here);
}

// Of the CPU, so that all of it can be looked at.
struct NotingRecorder final : Recorder {
  Device device() const override { return Device::cpu(); }
  bool is_recording() const override { return records; }
  Tensor place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) override {
    asked.push_back(values);
    return values->draw(count);
  }
  void use(const std::shared_ptr<const detail::RevisionState>& revision) override {
    used.push_back(revision);
  }
  void refuse(std::string_view reason) override { refused.emplace_back(reason); }

  bool records = false;
  std::vector<std::shared_ptr<detail::LateState>> asked;
  std::vector<std::shared_ptr<const detail::RevisionState>> used;
  std::vector<std::string> refused;
};

TEST(Recorder, PlacesLateValuesAndNoticesDestroyedOwners) {
  NotingRecorder recorder;
  {
    const Counting counting;
    const StepScope step;
    const RecorderScope scope(recorder);
    EXPECT_THAT(values_of(counting.values.on(Device::cpu(), 1)), ElementsAre(10));
    EXPECT_TRUE(counting.values.on_if_carried(Device::cpu(), 1));
    ASSERT_EQ(recorder.asked.size(), 2U);
    EXPECT_EQ(recorder.asked[0], recorder.asked[1]);
    EXPECT_TRUE(recorder.asked[0]->is_alive());
  }
  EXPECT_FALSE(recorder.asked[0]->is_alive());
  const StepScope step;
  EXPECT_THROW(recorder.asked[0]->draw(1), Error);
}

TEST(Recorder, RecordsRevisions) {
  NotingRecorder recorder;
  {
    Revision revision;
    const RecorderScope scope(recorder);
    revision.use();
    EXPECT_TRUE(recorder.used.empty());
    recorder.records = true;
    revision.use();
    ASSERT_EQ(recorder.used.size(), 1U);
    const std::uint64_t before = recorder.used[0]->number;
    revision.advance();
    EXPECT_NE(recorder.used[0]->number, before);
    EXPECT_TRUE(recorder.used[0]->is_alive);
  }
  EXPECT_FALSE(recorder.used[0]->is_alive);
}

TEST(Recorder, IsToldWhatCannotBeReplayed) {
  refuse_recording("no recorder is there");
  NotingRecorder recorder;
  const Counting counting;
  const StepScope step;
  const RecorderScope scope(recorder);
  refuse_recording("a number of the host");
  counting.values.on_host(1);
  EXPECT_EQ(recorder.refused.size(), 2U);
  EXPECT_EQ(recorder.refused[0], "a number of the host");
  recorder.records = true;
  EXPECT_THROW(refuse_recording("a number of the host"), RecordingRefused);
  EXPECT_THROW(counting.values.on_host(1), RecordingRefused);
  EXPECT_THROW(RecorderScope{recorder}, Error);  // within another one
}

}  // namespace
}  // namespace tasuki
