// Streams between ranks that make examples and ranks that train.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "communicator/mpi_comm.hpp"
#include "communicator/objects.hpp"
#include "dataset/array_dataset.hpp"
#include "dataset/stream/stream_iterator.hpp"
#include "dataset/stream/stream_sender.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/skip.hpp"

#include <nlohmann/json.hpp>

namespace tasuki {
namespace {

using testing::error_of;
using testing::expect_error;
using Numbers = std::vector<std::int64_t>;

const std::vector<Field> pair_fields{
    {.name = "x", .shape = {2}},
    {.name = "t", .stored = DType::int64, .decoded = DType::int64, .is_target = true}};

int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int size_of_world() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Example `number` of sender `rank`: t tells both, x is made from it.
class Examples {
 public:
  Examples(int rank, std::int64_t first, std::int64_t count) {
    for (std::int64_t number = first; number < first + count; ++number) {
      labels_.push_back(1000 * number + rank);
      values_.push_back(static_cast<float>(number));
      values_.push_back(static_cast<float>(-rank));
    }
  }
  ArrayDataset dataset() const {
    const auto count = static_cast<std::int64_t>(labels_.size());
    return ArrayDataset(
        {{"x", {values_.data(), {count, 2}}}, {"t", {labels_.data(), {count}}, 1, true}});
  }

 private:
  std::vector<float> values_;
  std::vector<std::int64_t> labels_;
};

// The labels of a batch, whose x is checked.
Numbers labels_in(const Batch& batch) {
  const auto labels = batch["t"].span<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t number = labels[i] / 1000;
    EXPECT_EQ(batch["x"].data<float>()[2 * i], static_cast<float>(number));
    EXPECT_EQ(batch["x"].data<float>()[2 * i + 1], static_cast<float>(-(labels[i] % 1000)));
  }
  return {labels.begin(), labels.end()};
}

bool trains(int receivers) {
  return rank_of_world() >= size_of_world() - receivers;
}

// 1 .. size - 1 receivers; the last ranks receive.
class StreamOfSomeRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Receivers, StreamOfSomeRanks, ::testing::Values(1, 2, 3));

TEST_P(StreamOfSomeRanks, LosesNothingInOrderOfArrival) {
  const int receivers = GetParam(), senders = size_of_world() - receivers;
  if (senders < 1) GTEST_SKIP() << "needs " << receivers + 1 << " ranks";
  constexpr std::int64_t calls = 40, per_call = 7;
  Numbers seen;
  if (trains(receivers)) {
    StreamIterator batches(MPI_COMM_WORLD, pair_fields,
                           {.batch_size = 5, .capacity = 6, .order = StreamOrder::arrival});
    while (batches.is_open()) {
      EXPECT_LE(batches.counts().arrived - batches.counts().used, 6);
      const Batch batch = batches.next();
      const Numbers labels = labels_in(batch);
      EXPECT_FALSE(batch.global_size().has_value());
      seen.insert(seen.end(), labels.begin(), labels.end());
    }
    EXPECT_EQ(batches.counts().arrived, std::ssize(seen));
    EXPECT_EQ(batches.counts().used, std::ssize(seen));
    EXPECT_EQ(batches.counts().repeated, 0);
    EXPECT_EQ(batches.counts().dropped + batches.counts().dropped_by_senders, 0)
        << "a message of 7 does not fit into the buffer at once";
    EXPECT_EQ(batches.next().size(), 0) << "after the end";
    // Each sender's examples in their order.
    std::map<std::int64_t, std::int64_t> last;
    for (const std::int64_t label : seen) {
      const auto before = last.find(label % 1000);
      EXPECT_TRUE(before == last.end() || before->second < label);
      last[label % 1000] = label;
    }
  } else {
    // A window of 10: many sends wait.
    StreamSender sender(MPI_COMM_WORLD, pair_fields, {.window = 10, .waits = true});
    for (std::int64_t call = 0; call < calls; ++call)
      EXPECT_EQ(sender.send(Examples(rank_of_world(), call * per_call, per_call).dataset()),
                per_call);
    EXPECT_EQ(sender.sent(), calls * per_call);
    EXPECT_EQ(sender.dropped(), 0);
  }
  // Together the receivers have seen everything once.
  const auto world = create_communicator("naive", MPI_COMM_WORLD);
  Numbers all;
  for (const auto& of_rank : allgather_object(*world, seen))
    for (const auto& label : of_rank) all.push_back(label);
  std::ranges::sort(all);
  Numbers expected;
  for (std::int64_t number = 0; number < calls * per_call; ++number)
    for (int rank = 0; rank < senders; ++rank) expected.push_back(1000 * number + rank);
  EXPECT_EQ(all, expected);
}

TEST_P(StreamOfSomeRanks, DropsAtTheSenderWhileTrainingIsBusy) {
  const int receivers = GetParam(), senders = size_of_world() - receivers;
  if (senders < 1) GTEST_SKIP() << "needs " << receivers + 1 << " ranks";
  constexpr std::int64_t window = 6, made = 100;
  const auto world = create_communicator("naive", MPI_COMM_WORLD);
  std::int64_t sent = 0, dropped = 0, arrived = 0, dropped_on_the_way = 0;
  if (trains(receivers)) {
    StreamIterator batches(MPI_COMM_WORLD, pair_fields,
                           {.batch_size = 1, .capacity = 3, .order = StreamOrder::arrival});
    world->barrier();  // until then the senders have nobody that takes their examples
    while (batches.is_open()) batches.next();
    EXPECT_EQ(batches.counts().dropped, 0);
    arrived = batches.counts().arrived;
    dropped_on_the_way = batches.counts().dropped_by_senders;
  } else {
    StreamSender sender(MPI_COMM_WORLD, pair_fields, {.window = window});
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < made; ++i)
      most += sender.send(Examples(rank_of_world(), i, 1).dataset());
    EXPECT_EQ(most, sender.sent());
    EXPECT_EQ(sender.sent() % window, 0) << "the windows of all its receivers are full";
    EXPECT_EQ(sender.sent() + sender.dropped(), made);
    sent = sender.sent();
    dropped = sender.dropped();
    world->barrier();
  }
  const Tensor sums = Tensor::zeros({4}, DType::int64);
  std::ranges::copy(Numbers{sent, arrived, dropped, dropped_on_the_way}, sums.data<std::int64_t>());
  world->allreduce(sums);
  EXPECT_EQ(sums.data<std::int64_t>()[0], sums.data<std::int64_t>()[1]);
  EXPECT_GT(sums.data<std::int64_t>()[2], 0);
  EXPECT_EQ(sums.data<std::int64_t>()[2], sums.data<std::int64_t>()[3]);
}

TEST_P(StreamOfSomeRanks, AnErrorInTrainingLeavesTheSendersRunning) {
  const int receivers = GetParam(), senders = size_of_world() - receivers;
  if (senders < 1) GTEST_SKIP() << "needs " << receivers + 1 << " ranks";
  for (int round = 0; round < 3; ++round) {  // a new stream can follow
    // In order of arrival, messages wait for room in the buffer.
    const StreamOptions options =
        round == 1 ? StreamOptions{.batch_size = 2, .capacity = 2, .order = StreamOrder::arrival}
                   : StreamOptions{.batch_size = 2};
    if (trains(receivers)) {
      const auto train = [&] {
        StreamIterator batches(MPI_COMM_WORLD, pair_fields, options);
        batches.next();
        throw std::runtime_error("the loss exploded");
      };
      EXPECT_THROW(train(), std::runtime_error);
    } else {
      StreamSender sender(MPI_COMM_WORLD, pair_fields, {.window = 4, .waits = true});
      std::int64_t steps = 0;
      while (sender.is_open()) sender.send(Examples(rank_of_world(), steps++, 3).dataset());
      EXPECT_EQ(sender.send(Examples(rank_of_world(), steps, 3).dataset()), 0);
    }
  }
}

TEST_P(StreamOfSomeRanks, ServesReceiversEqually) {
  const int receivers = GetParam(), senders = size_of_world() - receivers;
  if (senders < 1) GTEST_SKIP() << "needs " << receivers + 1 << " ranks";
  constexpr std::int64_t calls = 40, per_call = 3;  // that 2 receivers cannot divide
  const auto world = create_communicator("naive", MPI_COMM_WORLD);
  std::int64_t arrived = 0;
  if (trains(receivers)) {
    StreamIterator batches(MPI_COMM_WORLD, pair_fields, {.batch_size = 1});
    while (batches.is_open()) {
    }
    arrived = batches.counts().arrived;
  } else {
    StreamSender sender(MPI_COMM_WORLD, pair_fields, {.window = calls * per_call});
    for (std::int64_t call = 0; call < calls; ++call)
      EXPECT_EQ(sender.send(Examples(rank_of_world(), call * per_call, per_call).dataset()),
                per_call);
  }
  Numbers all;
  for (const auto& of_rank : allgather_object(*world, arrived)) all.push_back(of_rank);
  all.erase(all.begin(), all.begin() + senders);
  const auto [least, most] = std::ranges::minmax(all);
  EXPECT_LE(most - least, senders * per_call);
  EXPECT_GT(least, 0);
}

TEST_P(StreamOfSomeRanks, RandomOrderRepeatsUntilTheEnd) {
  const int receivers = GetParam(), senders = size_of_world() - receivers;
  if (senders < 1) GTEST_SKIP() << "needs " << receivers + 1 << " ranks";
  if (trains(receivers)) {
    StreamIterator batches(MPI_COMM_WORLD, pair_fields,
                           {.batch_size = 4, .capacity = 8, .most_uses = 2, .steps_per_epoch = 3});
    for (int step = 0; step < 6; ++step) {
      const Batch batch = batches.next();
      EXPECT_EQ(batch.size(), 4);
      EXPECT_EQ(batch.epoch(), step / 3);
      labels_in(batch);
      // Not used more often than twice on average while there is more to come.
      EXPECT_LE(batches.counts().used, 2 * batches.counts().arrived);
    }
    EXPECT_EQ(batches.epoch(), 2);
    EXPECT_TRUE(batches.is_new_epoch());
    while (batches.is_open()) {
    }
    // The last examples remain, and can be used as often as needed.
    for (int step = 0; step < 50; ++step) EXPECT_EQ(batches.next().size(), 4);
    EXPECT_EQ(batches.held(), 8);
    EXPECT_GT(batches.counts().repeated, 100);
  } else {
    StreamSender sender(MPI_COMM_WORLD, pair_fields, {.window = 1000});
    sender.send(Examples(rank_of_world(), 0, 48).dataset());
  }
}

TEST(Stream, RefusesRanksThatDiffer) {
  if (size_of_world() == 1) GTEST_SKIP() << "needs 2 ranks";
  const bool is_last = rank_of_world() + 1 == size_of_world();
  std::vector<Field> fields = pair_fields;
  if (is_last) fields[0].shape = {3};
  const auto connect = [&] {
    if (is_last)
      StreamIterator(MPI_COMM_WORLD, fields, {});
    else
      StreamSender(MPI_COMM_WORLD, fields);
  };
  expect_error(ErrorKind::disagreement,
               {"rank 0 gave the fields x 2 float32, t scalar int64",
                fmt::format("rank {} gave x 3 float32", size_of_world() - 1)},
               connect);
  expect_error(ErrorKind::usage, {"no rank receives"},
               [] { StreamSender(MPI_COMM_WORLD, pair_fields); });
}

TEST(Stream, RefusesOptionsThatMakeNoSense) {
  const auto with = [](const StreamOptions& options) {
    return error_of([&] { StreamIterator(MPI_COMM_SELF, pair_fields, options); });
  };
  EXPECT_NE(with({.batch_size = 0}).find("positive batch size"), std::string::npos);
  EXPECT_NE(with({.batch_size = 9, .capacity = 8}).find("raise the capacity"), std::string::npos);
  EXPECT_NE(
      error_of([] { StreamSender(MPI_COMM_SELF, pair_fields, {.window = 0}); }).find("window"),
      std::string::npos);
  EXPECT_NE(error_of([] { StreamSender(MPI_COMM_NULL, pair_fields); }).find("MPI_COMM_NULL"),
            std::string::npos);
}

TEST(Stream, TakesExamplesOfItsOwnProcess) {
  StreamIterator batches(MPI_COMM_SELF, pair_fields,
                         {.batch_size = 2, .order = StreamOrder::arrival});
  expect_error(ErrorKind::usage, {"without senders", "add() more"}, [&] { batches.next(); });
  batches.add(Examples(0, 5, 3).dataset());
  EXPECT_EQ(labels_in(batches.next()), (Numbers{5000, 6000}));
  EXPECT_TRUE(batches.is_open());
  batches.finish();
  EXPECT_TRUE(batches.is_open()) << "an example is left";
  EXPECT_EQ(labels_in(batches.next()), Numbers{7000});
  EXPECT_FALSE(batches.is_open());
  constexpr std::int64_t capacity = StreamOptions().capacity;
  batches.add(Examples(0, 8, capacity + 1).dataset());
  EXPECT_EQ(batches.counts().dropped, 1) << "there is no sender to hold up";
  batches.restore({7, 99});
  EXPECT_EQ(batches.epoch(), 7);
  expect_error(ErrorKind::data, {"epoch 7, step 100"}, [&] { batches.restore({7, 100}); });
}

}  // namespace
}  // namespace tasuki
