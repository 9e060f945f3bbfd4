// Where time goes: measured on each rank, told about all.
#include "training/step_times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "communicator/registry.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/observe.hpp"

namespace tasuki {
namespace {

using testing::share_of;
using testing::small_model;
using testing::synthetic;
using testing::TemporaryFolder;

// An iterator that is slow on one rank.
class SlowIterator final : public ForwardingIterator {
 public:
  SlowIterator(std::unique_ptr<Iterator> inner, double seconds)
      : ForwardingIterator(std::move(inner)), delay_(seconds) {}
  Batch next() override {
    std::this_thread::sleep_for(delay_);
    return inner().next();
  }

 private:
  std::chrono::duration<double> delay_;
};

TEST(StepTimes, RevealRankThatWaitsForInput) {
  constexpr double delay = 0.01;
  const auto comm = create_communicator("naive");
  const int slow = comm->size() - 1;
  const TemporaryFolder folder(comm.get());
  const auto model = small_model();
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm);
  optimizer->setup(*model);
  StandardUpdater::Settings settings;
  auto batches = std::make_unique<SlowIterator>(
      create_shuffled_iterator(share_of(synthetic(60), comm.get()), 5, 1),
      comm->rank() == slow ? delay : 0);
  Trainer trainer(std::make_unique<StandardUpdater>(std::move(batches), *optimizer,
                                                    classification_loss(*model), settings),
                  stop_after(2, {}), folder.path());
  auto& log = trainer.extend(std::make_unique<LogReport>());
  trainer.extend(report_step_times());
  trainer.run();

  ASSERT_EQ(log.entries().size(), 2u);
  for (const auto& entry : log.entries()) {
    EXPECT_GE(entry.at("time/input/max").get<double>(), delay);
    for (const std::string part : {"time/input", "time/compute", "time/forward", "time/backward",
                                   "time/update", "time/communication"}) {
      EXPECT_GE(entry.at(part + "/min").get<double>(), 0);
      EXPECT_GE(entry.at(part + "/max").get<double>(), entry.at(part + "/min").get<double>());
    }
    EXPECT_GT(entry.at("time/compute/min").get<double>(), 0);
    if (comm->size() > 1) {
      EXPECT_GT(entry.at("time/communication/max").get<double>(), 0);
    }
  }

  ASSERT_EQ(trainer.updater().times().size(), 1u);
  const StepTimes own = trainer.updater().times()[0];
  EXPECT_EQ(own.steps, 2 * trainer.updater().steps_per_epoch());
  EXPECT_LE(own.total(), trainer.elapsed_time());
  const auto ranks = gather_step_times({own}, comm.get());
  ASSERT_EQ(ranks.size(), static_cast<std::size_t>(comm->size()));
  EXPECT_EQ(ranks[static_cast<std::size_t>(comm->rank())].at(0).input, own.input);
  EXPECT_GE(ranks[static_cast<std::size_t>(slow)].at(0).input,
            delay * static_cast<double>(own.steps));
}

const StepTimes fast{10, 0.001, 0.3, 0.5, 0.099, 0.1}, waiting{10, 0.5, 0.15, 0.2, 0.1, 0.05};

TEST(StepTimes, TableHasALinePerRank) {
  const std::vector<RankTimes> ranks = {{fast}, {waiting}};
  EXPECT_EQ(step_time_table(ranks),
            "rank    input       forward      backward      exchange        update ms/step\n"
            "   0     0.10   0%    30.00  30%    50.00  50%     9.90  10%    10.00  10%\n"
            "   1    50.00  50%    15.00  15%    20.00  20%    10.00  10%     5.00   5%\n"
            "the exchange takes 10 % of a step; the slowest rank is 0\n");
  EXPECT_EQ(step_time_table({ranks[0], {}}), "");
  EXPECT_EQ(step_time_table({ranks[0], {{}}}), "");
}

TEST(StepTimes, TableHasALinePerWorker) {
  EXPECT_EQ(step_time_table({{fast, waiting}}),
            "worker    input       forward      backward      exchange        update ms/step\n"
            "   0.0     0.10   0%    30.00  30%    50.00  50%     9.90  10%    10.00  10%\n"
            "   0.1    50.00  50%    15.00  15%    20.00  20%    10.00  10%     5.00   5%\n"
            "the exchange takes 10 % of a step; the slowest worker is 0.0\n");
}

TEST(StepTimes, RejectInvalidTimes) {
  const auto expect_refused = [](const StepTimes& times, const std::string& found) {
    testing::expect_error(ErrorKind::data, {"times of steps: expected ", "from 0, found " + found},
                          [&] { decode_step_times(std::as_bytes(std::span(&times, 1))); });
  };
  EXPECT_EQ(decode_step_times(std::as_bytes(std::span(&waiting, 1))).at(0).input, waiting.input);
  StepTimes times = fast;
  times.steps = -3;
  expect_refused(times, "-3");
  for (double StepTimes::*const part :
       {&StepTimes::input, &StepTimes::forward, &StepTimes::backward, &StepTimes::exchange,
        &StepTimes::update, &StepTimes::transfer, &StepTimes::exposed})
    for (const double value : {std::nan(""), HUGE_VAL, -0.5}) {
      times = fast;
      times.*part = value;
      expect_refused(times, fmt::format("{}", value));
    }
}

TEST(StepTimes, ExchangeNothingOnASingleRank) {
  EXPECT_EQ(step_time_table({{fast}}).find("exchange takes"), std::string::npos);
}

// Of a transfer of 1 second, 0.4 are exposed. Sending new weights takes another 0.1.
TEST(StepTimes, TableShowsHiddenTransferTime) {
  StepTimes times{1, 0, 1, 2, 0.5, 0.5};
  times.transfer = 1;
  times.exposed = 0.4;
  const std::string table = step_time_table({{times}, {times}});
  EXPECT_NE(table.find("takes 12 % of a step; 60 % of the transfer is hidden"), std::string::npos)
      << table;
}

TEST(StepTimes, TableShowsTheSlowestOfManyRanks) {
  std::vector<RankTimes> ranks(100, {{1, 0, 0.5, 0.5, 1, 0}});
  ranks[80][0].exchange = 0.25;
  const std::string table = step_time_table(ranks);
  EXPECT_NE(table.find("  63  "), std::string::npos) << table;
  EXPECT_EQ(table.find("  64  "), std::string::npos) << table;
  EXPECT_NE(table.find(" ...  the slowest of 36 more:\n  80  "), std::string::npos) << table;
  EXPECT_NE(table.find("the slowest rank is 80\n"), std::string::npos) << table;
}

}  // namespace
}  // namespace tasuki
