// The buffer of a stream, and who sends to whom.
#include "dataset/stream/example_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "dataset/array_dataset.hpp"
#include "dataset/stream/stream_ends.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::expect_error;
using Numbers = std::vector<std::int64_t>;

const std::vector<Field> one_number{{.name = "x"}};

// Adds examples whose value is their arrival number.
void add(ExampleBuffer& buffer, int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(buffer.counts().arrived + i));
  buffer.add(std::as_bytes(std::span(values)), count);
}

Numbers ids_at(const ExampleBuffer& buffer, const Numbers& places) {
  const Batch batch = read_batch(buffer, places);
  Numbers ids(batch.ids().begin(), batch.ids().end());
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(batch["x"].data<float>()[i], static_cast<float>(ids[i]));
  return ids;
}

TEST(ExampleBuffer, GivesEachExampleOnceInOrderOfArrival) {
  ExampleBuffer buffer(one_number, 4);
  add(buffer, 3);
  EXPECT_EQ(ids_at(buffer, buffer.take_oldest(2)), (Numbers{0, 1}));
  add(buffer, 2);
  EXPECT_EQ(buffer.waiting(), 3);
  EXPECT_EQ(ids_at(buffer, buffer.take_oldest(9)), (Numbers{2, 3, 4}));
  EXPECT_EQ(ids_at(buffer, buffer.take_oldest(1)), Numbers{});
  EXPECT_EQ(buffer.counts().used, 5);
  EXPECT_EQ(buffer.counts().repeated, 0);
  EXPECT_EQ(buffer.counts().dropped, 0);
}

TEST(ExampleBuffer, DropsTheOldestAndCountsThoseThatWereNotUsed) {
  ExampleBuffer buffer(one_number, 4);
  add(buffer, 4);
  buffer.take_oldest(1);
  add(buffer, 3);  // replaces 0, which was used, and 1 and 2
  EXPECT_EQ(buffer.counts().dropped, 2);
  EXPECT_EQ(buffer.waiting(), 4);
  EXPECT_EQ(ids_at(buffer, buffer.take_oldest(9)), (Numbers{3, 4, 5, 6}));
  add(buffer, 9);
  EXPECT_EQ(buffer.counts().dropped, 2 + 5);
  EXPECT_EQ(ids_at(buffer, buffer.take_oldest(9)), (Numbers{12, 13, 14, 15}));
}

TEST(ExampleBuffer, ChoosesAtRandomWithoutRepetitionsInABatch) {
  ExampleBuffer buffer(one_number, 8);
  add(buffer, 11);
  std::vector<int> chosen(11);
  for (std::uint64_t step = 0; step < 800; ++step) {
    const Numbers ids = ids_at(buffer, buffer.take_any(3, 7, step));
    ASSERT_EQ(std::set<std::int64_t>(ids.begin(), ids.end()).size(), 3U);
    for (const std::int64_t id : ids) ++chosen.at(static_cast<std::size_t>(id));
  }
  EXPECT_EQ(std::vector<int>(chosen.begin(), chosen.begin() + 3), std::vector<int>(3, 0));
  for (std::size_t id = 3; id < chosen.size(); ++id) {  // 300 expected; sigma is 14
    EXPECT_GT(chosen[id], 220) << id;
    EXPECT_LT(chosen[id], 380) << id;
  }
  EXPECT_EQ(buffer.counts().used, 2400);
  EXPECT_EQ(buffer.counts().repeated, 2400 - 8);
  EXPECT_EQ(buffer.take_any(20, 7, 0).size(), 8U);
}

TEST(ExampleBuffer, ChoosesByArrivalsSeedAndStream) {
  const auto choice = [](int arrivals, std::uint64_t seed, std::uint64_t stream) {
    ExampleBuffer buffer(one_number, 64);
    add(buffer, arrivals);
    return buffer.take_any(8, seed, stream);
  };
  EXPECT_EQ(choice(50, 1, 2), choice(50, 1, 2));
  EXPECT_NE(choice(50, 1, 2), choice(50, 1, 3));
  EXPECT_NE(choice(50, 1, 2), choice(50, 2, 2));
}

TEST(ExampleBuffer, RejectsWhatDoesNotFit) {
  expect_error(ErrorKind::usage, {"room for at least 1 example, found 0"},
               [] { ExampleBuffer(one_number, 0); });
  expect_error(ErrorKind::usage, {"'x'", "different sizes"},
               [] { ExampleBuffer({{.name = "x", .shape = {0}, .is_ragged = true}}, 3); });
  const std::vector<float> values(6);
  const ArrayDataset pairs({{"x", {values.data(), {3, 2}}}});
  expect_error(ErrorKind::usage, {"sender: ", "(x scalar float32)", "(x 2 float32)"},
               [&] { check_stream_fields(pairs, one_number, "sender"); });
}

TEST(StreamEnds, ServeAllReceiversEvenly) {
  for (int senders = 1; senders <= 9; ++senders)
    for (int receivers = 1; receivers <= 9; ++receivers) {
      Numbers partners(static_cast<std::size_t>(receivers));
      for (int sender = 0; sender < senders; ++sender) {
        const Range range = receivers_of(sender, senders, receivers);
        EXPECT_EQ(range.size() == 1, senders % receivers == 0);
        for (std::int64_t place = range.begin; place < range.end; ++place)
          ++partners.at(static_cast<std::size_t>(place));
      }
      const auto [least, most] = std::ranges::minmax(partners);
      EXPECT_GE(least, 1) << senders << " senders, " << receivers << " receivers";
      EXPECT_EQ(least, most) << senders << " senders, " << receivers << " receivers";
    }
}

}  // namespace
}  // namespace tasuki
