#include "job/heartbeat_datagram.hpp"

#include <cstring>

namespace tasuki {
namespace {

// Calls visit(value) for each value of the datagram in order; one function for both directions, so
// that they agree.
template <class Visit>
void visit_head(Visit& visit, auto&& heartbeat) {
  visit(heartbeat.sender);
  visit(heartbeat.number);
  visit(heartbeat.asks);
  visit(heartbeat.count);
}

template <class Visit>
void visit_rank(Visit& visit, auto&& each) {
  visit(each.rank);
  visit(each.is_traced);
  visit(each.stopped_launcher);
  visit(each.memory);
  visit(each.activity.phase);
  visit(each.activity.epoch);
  visit(each.activity.iteration);
  visit(each.activity.waiting);
  visit(each.activity.communicator);
  visit(each.activity.number);
  visit(each.activity.bytes);
  visit(each.activity.moves);
  visit(each.activity.beats);
}

struct Writer {
  std::byte* at;
  template <class T>
  void operator()(const T& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
};

struct Reader {
  const std::byte* at;
  bool is_valid = true;
  template <class T>
  void operator()(T& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  }
  void operator()(bool& value) {
    is_valid = is_valid && std::to_integer<int>(*at) <= 1;
    value = std::to_integer<int>(*at++) == 1;
  }
};

struct Counter {
  std::size_t bytes = 0;
  template <class T>
  void operator()(const T& value) {
    bytes += sizeof value;
  }
};

using Seal = std::uint64_t;

std::size_t bytes_of(std::size_t ranks) {
  Counter head, rank;
  visit_head(head, Heartbeat());
  visit_rank(rank, RankActivity());
  return head.bytes + ranks * rank.bytes + sizeof(Seal);
}

bool is_known(const Activity& activity) {
  return activity.phase <= Phase::restoring && activity.waiting <= Waiting::mpi_finalize;
}

}  // namespace

std::span<const std::byte> write_heartbeat(const Heartbeat& heartbeat, const SipKey& key,
                                           HeartbeatBytes& place) {
  Writer write{place.data()};
  visit_head(write, heartbeat);
  for (const RankActivity& each : heartbeat.all()) visit_rank(write, each);
  const auto before =
      std::span<const std::byte>(place).first(static_cast<std::size_t>(write.at - place.data()));
  write(siphash(before, key));
  return std::span<const std::byte>(place).first(before.size() + sizeof(Seal));
}

std::optional<Heartbeat> read_heartbeat(std::span<const std::byte> datagram, const SipKey& key) {
  if (datagram.size() < bytes_of(0) || datagram.size() > bytes_of(Heartbeat::most_ranks))
    return std::nullopt;
  Seal seal = 0;
  std::memcpy(&seal, datagram.last(sizeof seal).data(), sizeof seal);
  if (seal != siphash(datagram.first(datagram.size() - sizeof seal), key)) return std::nullopt;

  Heartbeat heartbeat;
  Reader read{datagram.data()};
  visit_head(read, heartbeat);
  if (heartbeat.count > Heartbeat::most_ranks || datagram.size() != bytes_of(heartbeat.count))
    return std::nullopt;
  for (std::size_t i = 0; i < heartbeat.count; ++i) {
    visit_rank(read, heartbeat.ranks[i]);
    if (!is_known(heartbeat.ranks[i].activity)) return std::nullopt;
  }
  if (!read.is_valid) return std::nullopt;
  return heartbeat;
}

}  // namespace tasuki
