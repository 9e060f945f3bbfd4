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
constexpr double seconds_of_all = 4;  // of all rounds

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

std::vector<PairLink> measure_links(const Communicator& communicator) {
  const Topology& topology = communicator.topology();
  const std::vector<int> members = members_of(topology);
  const auto own = std::ranges::find(members, topology.rank);
  const MpiComm comm = MpiComm::duplicate(communicator.mpi().get());
  const int count = static_cast<int>(members.size());
  const int rounds = std::min(tournament_rounds(count), most_rounds);
  nlohmann::json measured = nlohmann::json::array();
  for (int round = 0; round < rounds && own != members.end(); ++round) {
    const auto partner = partner_in(round, static_cast<int>(own - members.begin()), count);
    report_progress();
    if (!partner) continue;
    const int other = members[static_cast<std::size_t>(*partner)];
    const Talk talk(communicator, comm.get(), other, round);
    if (other < topology.rank) {
      answer(talk);
      continue;
    }
    const PairLink link = Caller(talk, std::min(0.4, seconds_of_all / rounds)).measure();
    measured.push_back({other, link.latency, link.bytes_per_second});
  }
  std::vector<PairLink> links;
  const auto all = gather_object(const_cast<Communicator&>(communicator), measured);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (const nlohmann::json& each : all[rank])
      links.push_back({static_cast<int>(rank), each.at(0), each.at(1), each.at(2)});
  return links;
}

void judge_links(const std::vector<PairLink>& links, Report& report) {
  constexpr const char* check = "links";
  if (links.empty()) {
    report.ok(check, report.all(), "there is one rank, so nothing was measured");
    return;
  }
  std::vector<double> latencies, rates;
  for (const PairLink& link : links) {
    latencies.push_back(link.latency);
    rates.push_back(link.bytes_per_second);
  }
  const double latency = median_of(latencies), rate = median_of(rates);
  const Topology& topology = report.topology();
  // A short message that takes that long more than usual, or a rate so far below.
  constexpr double factor = 3, noise = 200e-6;
  // What 100-Mbit Ethernet has.
  constexpr double slow_rate = 12.5e6, slow_latency = 5e-3;
  bool is_slow = false;
  for (const PairLink& link : links) {
    const std::string hosts =
        fmt::format("{} and {}", topology.host_of[static_cast<std::size_t>(link.first)],
                    topology.host_of[static_cast<std::size_t>(link.second)]);
    const std::string own = text_of(link.latency, link.bytes_per_second);
    if (links.size() > 2 &&
        (link.latency > factor * latency + noise || link.bytes_per_second < rate / factor))
      report.warn(
          check, {link.first, link.second},
          fmt::format("between {}: {}; the median is {}", hosts, own, text_of(latency, rate)),
          "look for other traffic, cables, ports and settings of switches between the two, "
          "or leave one of them out");
    else if (link.bytes_per_second < slow_rate || link.latency > slow_latency)
      report.warn(check, {link.first, link.second}, fmt::format("between {}: {}", hosts, own),
                  "use a faster network (--mca btl_tcp_if_include NETWORK), or send less: "
                  "--wire-dtype, --power-sgd, --accumulate");
    else
      continue;
    is_slow = true;
  }
  if (is_slow) return;
  if (topology.inter_size == 1)
    report.ok(check, report.all(),
              fmt::format("between ranks {} and {}: {}", links[0].first, links[0].second,
                          text_of(latency, rate)));
  else
    report.ok(check, report.all(),
              fmt::format(
                  "{} of hosts: median {}; slowest {}", counted(std::ssize(links), "pair"),
                  text_of(latency, rate),
                  text_of(*std::ranges::max_element(latencies), *std::ranges::min_element(rates))));
}

}  // namespace tasuki::doctor
