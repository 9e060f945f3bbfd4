#include "tools/doctor/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "communicator/mpi/mpi.hpp"
#include "communicator/objects.hpp"
#include "core/activity.hpp"
#include "core/stopwatch.hpp"
#include "tools/doctor/talk.hpp"

namespace tasuki::doctor {
namespace {

constexpr int most_rounds = 64;
constexpr double seconds_of_pair = 0.4, seconds_of_all = 4;  // of all rounds

// A question is as long as its answer, and begins with the length of the next one; 0: the last.
class Caller {
 public:
  Caller(Talk talk, double seconds) : talk_(std::move(talk)), seconds_(seconds) {}

  PairLink measure() {
    // The first round trip opens the connection, and waits for a partner that is late.
    ask(short_message, short_message);
    Stopwatch watch;
    double passed = 0, least = std::numeric_limits<double>::max();
    for (int turn = 0; turn < 50 && (turn < 3 || passed < seconds_ / 4); ++turn) {
      least = std::min(least, ask(short_message, short_message));
      passed += watch.lap();
    }
    PairLink link;
    link.latency = least / 2;
    // Buffers on the way take short messages at once, so only those of the last length count.
    std::size_t bytes = std::size_t{64} << 10;
    constexpr std::size_t longest = std::size_t{4} << 20, factor = 4;
    ask(short_message, bytes);
    double fastest = ask(bytes, bytes);
    for (int turn = 0; turn < 8; ++turn) {
      passed += watch.lap();
      const bool grows = bytes < longest && passed + 2 * factor * fastest < seconds_;
      if (!grows && passed + fastest > seconds_) break;
      if (grows) {
        ask(bytes, bytes * factor);
        bytes *= factor;
        fastest = ask(bytes, bytes);
      } else {
        fastest = std::min(fastest, ask(bytes, bytes));
      }
    }
    link.bytes_per_second = 2 * static_cast<double>(bytes) / fastest;
    ask(bytes, 0);
    return link;
  }

 private:
  static constexpr std::size_t short_message = sizeof(std::uint64_t);

  // The time of a round trip.
  double ask(std::size_t bytes, std::uint64_t next) {
    buffer_.resize(bytes);
    std::memcpy(buffer_.data(), &next, sizeof next);
    Stopwatch watch;
    talk_.send(buffer_);
    talk_.receive(buffer_);
    return watch.lap();
  }

  Talk talk_;
  double seconds_;
  std::vector<std::byte> buffer_;
};

void answer(Talk talk) {
  std::vector<std::byte> buffer(sizeof(std::uint64_t));
  for (;;) {
    talk.receive(buffer);
    std::uint64_t next = 0;
    std::memcpy(&next, buffer.data(), sizeof next);
    talk.send(buffer);
    if (next == 0) return;
    buffer.resize(next);
  }
}

// The ranks that talk: the first of each host, or the first two of one host.
std::vector<int> members_of(const Topology& topology) {
  std::vector<int> members;
  if (topology.inter_size == 1) {
    members = topology.ranks_of_node(0);
    members.resize(std::min<std::size_t>(members.size(), 2));
    return members;
  }
  for (int node = 0; node < topology.inter_size; ++node)
    members.push_back(topology.ranks_of_node(node).front());
  return members;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Medians {
  double latency = 0, bytes_per_second = 0;
};
Medians medians_of(const std::vector<PairLink>& links) {
  std::vector<double> latencies, rates;
  for (const PairLink& link : links) {
    latencies.push_back(link.latency);
    rates.push_back(link.bytes_per_second);
  }
  return {median_of(latencies), median_of(rates)};
}

// Whether a short message takes that much longer than usual, or the rate is so far below.
bool is_outlier(const PairLink& link, const Medians& usual) {
  constexpr double factor = 3, noise = 200e-6;
  return link.latency > factor * usual.latency + noise ||
         link.bytes_per_second < usual.bytes_per_second / factor;
}

// What 100-Mbit Ethernet has.
bool is_slow(const PairLink& link) {
  constexpr double rate = 12.5e6, latency = 5e-3;
  return link.bytes_per_second < rate || link.latency > latency;
}

std::string text_of(double latency, double bytes_per_second) {
  return fmt::format("{}, {}/s", time_text(latency), size_text(bytes_per_second));
}

}  // namespace

int tournament_rounds(int members) {
  return members < 2 ? 0 : members + members % 2 - 1;
}

// The circle method: all but the last member move one place in each round.
std::optional<int> partner_in(int round, int member, int members) {
  const int places = members + members % 2, circle = places - 1;
  int partner = 0;
  if (member == circle) {
    // Of the one whose partner would be itself: 2 x member = round (mod circle).
    partner = static_cast<int>(static_cast<std::int64_t>(round) * (places / 2) % circle);
  } else {
    partner = ((round - member) % circle + circle) % circle;
    if (partner == member) partner = circle;
  }
  return partner < members ? std::optional(partner) : std::nullopt;
}

namespace {

// The side of this rank in the measurement of a pair; the result is on its first rank.
std::optional<PairLink> measure_pair(const Communicator& communicator, const MpiComm& comm,
                                     int other, int turn, double seconds) {
  report_progress();
  const Talk talk(communicator, comm.get(), other, turn);
  if (other < communicator.rank()) {
    answer(talk);
    return std::nullopt;
  }
  PairLink link = Caller(talk, seconds).measure();
  link.first = communicator.rank();
  link.second = other;
  return link;
}

// Those of all ranks, on rank 0.
std::vector<PairLink> gather(Communicator& communicator, const std::vector<PairLink>& own) {
  nlohmann::json measured = nlohmann::json::array();
  for (const PairLink& link : own)
    measured.push_back({link.first, link.second, link.latency, link.bytes_per_second});
  std::vector<PairLink> links;
  for (const nlohmann::json& rank : gather_object(communicator, measured))
    for (const nlohmann::json& each : rank)
      links.push_back({each.at(0), each.at(1), each.at(2), each.at(3)});
  return links;
}

// Pairs that seem slow, perhaps because hosts were busy with other pairs or programs: the better of
// two measurements counts, the second one with no other pair at the same time.
void measure_again(Communicator& communicator, const MpiComm& comm, int turn,
                   std::vector<PairLink>& links) {
  constexpr std::size_t most = 8;
  nlohmann::json suspects = nlohmann::json::array();
  if (!links.empty()) {
    const Medians usual = medians_of(links);
    for (const PairLink& link : links)
      if (suspects.size() < most && (is_outlier(link, usual) || is_slow(link)))
        suspects.push_back({link.first, link.second});
  }
  std::vector<PairLink> own;
  for (const nlohmann::json& pair : bcast_object(communicator, suspects)) {
    communicator.barrier();
    const int first = pair.at(0), second = pair.at(1);
    if (communicator.rank() != first && communicator.rank() != second) continue;
    const int other = communicator.rank() == first ? second : first;
    if (const auto link = measure_pair(communicator, comm, other, turn, seconds_of_pair))
      own.push_back(*link);
  }
  for (const PairLink& again : gather(communicator, own))
    for (PairLink& link : links)
      if (link.first == again.first && link.second == again.second) {
        link.latency = std::min(link.latency, again.latency);
        link.bytes_per_second = std::max(link.bytes_per_second, again.bytes_per_second);
      }
}

}  // namespace

std::vector<PairLink> measure_links(Communicator& communicator) {
  const std::vector<int> members = members_of(communicator.topology());
  const auto own = std::ranges::find(members, communicator.rank());
  const MpiComm comm = MpiComm::duplicate(communicator.mpi().get());
  const int count = static_cast<int>(members.size());
  const int rounds = std::min(tournament_rounds(count), most_rounds);
  std::vector<PairLink> measured;
  for (int round = 0; round < rounds && own != members.end(); ++round) {
    const auto partner = partner_in(round, static_cast<int>(own - members.begin()), count);
    if (!partner) continue;
    const auto link = measure_pair(communicator, comm, members[static_cast<std::size_t>(*partner)],
                                   round, std::min(seconds_of_pair, seconds_of_all / rounds));
    if (link) measured.push_back(*link);
  }
  std::vector<PairLink> links = gather(communicator, measured);
  measure_again(communicator, comm, rounds, links);
  return links;
}

void judge_links(const std::vector<PairLink>& links, Report& report) {
  constexpr const char* check = "links";
  if (links.empty()) {
    report.ok(check, report.all(), "there is one rank, so nothing was measured");
    return;
  }
  const Medians usual = medians_of(links);
  const std::string usual_text = text_of(usual.latency, usual.bytes_per_second);
  const Topology& topology = report.topology();
  bool has_fault = false;
  for (const PairLink& link : links) {
    const std::string hosts =
        fmt::format("{} and {}", topology.host_of[static_cast<std::size_t>(link.first)],
                    topology.host_of[static_cast<std::size_t>(link.second)]);
    const std::string own = text_of(link.latency, link.bytes_per_second);
    if (links.size() > 2 && is_outlier(link, usual))
      report.warn(check, {link.first, link.second},
                  fmt::format("between {}: {}; the median is {}", hosts, own, usual_text),
                  "look for other traffic, cables, ports and settings of switches between the two, "
                  "or leave one of them out");
    else if (is_slow(link))
      report.warn(check, {link.first, link.second}, fmt::format("between {}: {}", hosts, own),
                  "use a faster network (--mca btl_tcp_if_include NETWORK), or send less: "
                  "--wire-dtype, --power-sgd, --accumulate");
    else
      continue;
    has_fault = true;
  }
  if (has_fault) return;
  double latency = 0, rate = links.front().bytes_per_second;
  for (const PairLink& link : links) {
    latency = std::max(latency, link.latency);
    rate = std::min(rate, link.bytes_per_second);
  }
  const std::int64_t hosts = topology.inter_size, pairs = hosts * (hosts - 1) / 2;
  if (hosts == 1)
    report.ok(
        check, report.all(),
        fmt::format("between ranks {} and {}: {}", links[0].first, links[0].second, usual_text));
  else
    report.ok(check, report.all(),
              fmt::format("{}{} of hosts: median {}; slowest {}",
                          std::ssize(links) < pairs ? fmt::format("{} of ", std::ssize(links)) : "",
                          counted(pairs, "pair"), usual_text, text_of(latency, rate)));
}

}  // namespace tasuki::doctor
