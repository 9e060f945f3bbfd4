// What nodes tell each other: kept from end to end, and refused unless made with the job's key.

#include "job/heartbeat_datagram.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace tasuki {
namespace {

constexpr SipKey key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

// The example of the algorithm's paper (appendix A), and vectors of its reference implementation.
TEST(SipHash, MatchesPublishedVectors) {
  std::vector<std::byte> message(15);
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i);
  EXPECT_EQ(siphash(message, key), 0xa129ca6149be45e5);
  EXPECT_EQ(siphash({}, key), 0x726fdb47dd0e0e31);
  EXPECT_EQ(siphash(std::span(message).first(8), key), 0x93f5f5799a932462);
}

Heartbeat example(std::size_t ranks) {
  Heartbeat heartbeat{.sender = 3, .number = 1'000'000'007, .asks = ranks % 2 == 1, .count = ranks};
  for (std::size_t i = 0; i < ranks; ++i) {
    RankActivity& each = heartbeat.ranks.at(i);
    each.rank = static_cast<int>(i) + 3;
    each.is_traced = i % 2 == 1;
    each.stopped_launcher = static_cast<int>(4711 * i);
    each.memory = static_cast<std::int64_t>(i) << 40;
    each.activity = {Phase::evaluating, 7, -1, Waiting::send, 1U << 9, -1, 1 << 20, 99, 100 + i};
  }
  return heartbeat;
}

std::vector<std::byte> datagram_of(const Heartbeat& heartbeat, const SipKey& with = key) {
  HeartbeatBytes place;
  const auto bytes = write_heartbeat(heartbeat, with, place);
  return {bytes.begin(), bytes.end()};
}

TEST(HeartbeatDatagram, RoundTripsEveryValue) {
  for (const std::size_t ranks : {std::size_t{0}, std::size_t{1}, Heartbeat::most_ranks}) {
    const Heartbeat sent = example(ranks);
    const auto found = read_heartbeat(datagram_of(sent), key);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->sender, sent.sender);
    EXPECT_EQ(found->number, sent.number);
    EXPECT_EQ(found->asks, sent.asks);
    ASSERT_EQ(found->count, ranks);
    for (std::size_t i = 0; i < ranks; ++i) {
      const RankActivity &a = found->ranks.at(i), &b = sent.ranks.at(i);
      EXPECT_EQ(a.rank, b.rank);
      EXPECT_EQ(a.is_traced, b.is_traced);
      EXPECT_EQ(a.stopped_launcher, b.stopped_launcher);
      EXPECT_EQ(a.memory, b.memory);
      EXPECT_EQ(a.activity.phase, b.activity.phase);
      EXPECT_EQ(a.activity.epoch, b.activity.epoch);
      EXPECT_EQ(a.activity.iteration, b.activity.iteration);
      EXPECT_EQ(a.activity.waiting, b.activity.waiting);
      EXPECT_EQ(a.activity.communicator, b.activity.communicator);
      EXPECT_EQ(a.activity.number, b.activity.number);
      EXPECT_EQ(a.activity.bytes, b.activity.bytes);
      EXPECT_EQ(a.activity.moves, b.activity.moves);
      EXPECT_EQ(a.activity.beats, b.activity.beats);
    }
  }
}

TEST(HeartbeatDatagram, RejectsAnotherKey) {
  EXPECT_FALSE(read_heartbeat(datagram_of(example(2), {key[0] + 1, key[1]}), key));
  EXPECT_FALSE(read_heartbeat(datagram_of(example(2), {key[0], key[1] ^ 1U << 31}), key));
}

TEST(HeartbeatDatagram, RejectsAnyFlippedBit) {
  auto datagram = datagram_of(example(2));
  for (std::size_t bit = 0; bit < datagram.size() * 8; ++bit) {
    const auto changed = std::byte{1} << static_cast<int>(bit % 8);
    datagram[bit / 8] ^= changed;
    EXPECT_FALSE(read_heartbeat(datagram, key)) << "bit " << bit;
    datagram[bit / 8] ^= changed;
  }
  EXPECT_TRUE(read_heartbeat(datagram, key));
}

TEST(HeartbeatDatagram, RejectsAnyOtherLength) {
  auto datagram = datagram_of(example(Heartbeat::most_ranks));
  EXPECT_EQ(datagram.size(), largest_heartbeat);
  datagram.resize(datagram.size() + 100);
  for (std::size_t size = 0; size < datagram.size(); ++size)
    EXPECT_EQ(read_heartbeat(std::span(datagram).first(size), key).has_value(),
              size == largest_heartbeat);
}

// Values that no type has, under the right hash: as a process of another version would send them.
TEST(HeartbeatDatagram, RejectsInvalidValues) {
  std::mt19937 random(1);
  int accepted = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    auto datagram = datagram_of(example(1 + random() % 3));
    const auto body = std::span(datagram).first(datagram.size() - sizeof(std::uint64_t));
    for (unsigned changes = 1 + random() % 8; changes > 0; --changes)
      body[random() % body.size()] = static_cast<std::byte>(random());
    const std::uint64_t seal = siphash(body, key);
    std::memcpy(datagram.data() + body.size(), &seal, sizeof seal);
    const auto found = read_heartbeat(datagram, key);
    if (!found) continue;
    ++accepted;
    ASSERT_LE(found->count, Heartbeat::most_ranks);
    for (const RankActivity& each : found->all()) {
      EXPECT_LE(each.activity.phase, Phase::restoring);
      EXPECT_LE(each.activity.waiting, Waiting::mpi_finalize);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 20000);
}

TEST(HeartbeatDatagram, RejectsRandomBytes) {
  std::mt19937 random(2);
  std::vector<std::byte> datagram;
  for (int turn = 0; turn < 20000; ++turn) {
    datagram.resize(random() % (largest_heartbeat + 20));
    for (std::byte& each : datagram) each = static_cast<std::byte>(random());
    EXPECT_FALSE(read_heartbeat(datagram, key));
  }
}

}  // namespace
}  // namespace tasuki
