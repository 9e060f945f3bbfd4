#include "tasuki/communicator/algorithms/link_probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "tasuki/communicator/mpi/transfer.hpp"
#include "tasuki/core/activity.hpp"

namespace tasuki {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The first ranks of the nodes, in a ring.
class Ring {
 public:
  explicit Ring(MPI_Comm comm) : comm_(comm) {
    int rank = 0, ranks = 0;
    TASUKI_MPI(MPI_Comm_rank, comm, &rank);
    TASUKI_MPI(MPI_Comm_size, comm, &ranks);
    next_ = (rank + 1) % ranks;
    previous_ = (rank + ranks - 1) % ranks;
  }

  // The time in which `bytes` travel from each rank to the next, in messages as an allreduce sends
  // them. Waits like one, too.
  double round(std::size_t bytes) {
    const auto message = static_cast<std::size_t>(TransferSizes{}.message_chunk);
    sent_.resize(std::max(sent_.size(), bytes));
    received_.resize(sent_.size());
    const auto start = Clock::now();
    MpiRequests requests;
    for (std::size_t begin = 0; begin < bytes; begin += message) {
      const std::size_t length = std::min(message, bytes - begin);
      start_recv(requests, std::span(received_).subspan(begin, length), previous_, 0, comm_);
      start_send(requests, std::span(sent_).subspan(begin, length), next_, 0, comm_);
    }
    requests.wait();
    return seconds_since(start);
  }

  double most(double seconds) const {
    allreduce(&seconds, 1, DType::float64, ReduceOp::max, comm_);
    return seconds;
  }

 private:
  MPI_Comm comm_;
  int next_ = 0, previous_ = 0;
  std::vector<std::byte> sent_, received_;
};

Link measure(Ring ring, double most_seconds) {
  const auto start = Clock::now();
  constexpr std::size_t short_message = 8;
  ring.round(short_message);  // opens the connections
  std::array<double, 9> times{};
  for (double& seconds : times) seconds = ring.round(short_message);
  std::ranges::sort(times);
  const double latency = ring.most(times[times.size() / 2]);

  // Network buffers take short messages at once, so only rounds of the longest ones count, of which
  // the fastest was disturbed least by what else the machines do.
  constexpr std::size_t first = std::size_t{64} << 10, last = std::size_t{16} << 20, factor = 4;
  std::size_t bytes = first;
  double seconds = ring.most(ring.round(bytes));
  const auto has_time_for = [&](double round) {
    return ring.most(seconds_since(start)) + round < most_seconds;
  };
  while (bytes < last && has_time_for(factor * seconds)) {
    bytes *= factor;
    seconds = ring.most(ring.round(bytes));
  }
  for (int more = 0; more < 2 && has_time_for(seconds); ++more)
    seconds = std::min(seconds, ring.most(ring.round(bytes)));
  // A long message has one latency, but rounds are measured apart: the difference may be noise.
  const double transfer = std::max(seconds - latency, seconds / 2);
  return {.latency = latency, .bytes_per_second = static_cast<double>(bytes) / transfer};
}

}  // namespace

std::optional<Link> probe_link(const Communicator& communicator, double most_seconds) {
  if (communicator.inter_size() == 1) return {};
  const WaitScope waiting(Waiting::create_communicator);
  const MPI_Comm all = communicator.mpi().get();
  const bool is_first = communicator.intra_rank() == 0;
  const MpiComm first_ranks =
      MpiComm::split(all, is_first ? 0 : MPI_UNDEFINED, communicator.inter_rank());
  // Of the first ranks, which all know the same.
  std::array<double, 2> found{};
  if (is_first) {
    const Link link = measure(Ring(first_ranks.get()), most_seconds);
    found = {link.latency, link.bytes_per_second};
  }
  allreduce(found.data(), std::ssize(found), DType::float64, ReduceOp::max, all);
  return Link{.latency = found[0], .bytes_per_second = found[1]};
}

}  // namespace tasuki
