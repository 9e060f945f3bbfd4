#include "communicator/algorithms/link_probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "communicator/mpi/transfer.hpp"
#include "core/activity.hpp"

namespace tasuki {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Ranks in a ring.
class Ring {
 public:
  explicit Ring(MPI_Comm comm) : comm_(comm) {
    int rank = 0, ranks = 0;
    TASUKI_MPI(MPI_Comm_rank, comm, &rank);
    TASUKI_MPI(MPI_Comm_size, comm, &ranks);
    next_ = (rank + 1) % ranks;
    previous_ = (rank + ranks - 1) % ranks;
  }

  // The time in which `bytes` travel from each rank to the next, in messages of the length that an
  // allreduce has. Waits for them as an allreduce does.
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

  // Network buffers take short messages at once, so only rounds of the longest ones count. The
  // fastest round was disturbed least by other programs on the machines.
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
  // A long round contains one latency. The two were measured at different times, so noise could
  // make their difference far too small.
  const double transfer = std::max(seconds - latency, seconds / 2);
  return {.latency = latency, .bytes_per_second = static_cast<double>(bytes) / transfer};
}

// The link as the slowest rank sees it. `ring`: empty on ranks that do not take part.
Link slowest(const MpiComm& ring, double most_seconds, MPI_Comm all) {
  std::array<double, 2> found{};  // seconds of a short message and of a byte
  if (ring) {
    const Link link = measure(Ring(ring.get()), most_seconds);
    found = {link.latency, 1 / link.bytes_per_second};
  }
  allreduce(found.data(), std::ssize(found), DType::float64, ReduceOp::max, all);
  return {.latency = found[0], .bytes_per_second = 1 / found[1]};
}

}  // namespace

Links probe_links(const Communicator& communicator, double most_seconds) {
  const Topology& topology = communicator.topology();
  const bool has_neighbours = topology.size > topology.inter_size;
  const WaitScope waiting(Waiting::create_communicator);
  const MPI_Comm all = communicator.mpi().get();
  Links links;
  if (topology.inter_size > 1) {
    const MpiComm first_ranks =
        MpiComm::split(all, topology.intra_rank == 0 ? 0 : MPI_UNDEFINED, topology.inter_rank);
    links.between = slowest(first_ranks, has_neighbours ? most_seconds * 2 / 3 : most_seconds, all);
  }
  if (has_neighbours) {
    const MpiComm neighbours = MpiComm::split(
        all, topology.intra_size > 1 ? topology.inter_rank : MPI_UNDEFINED, topology.rank);
    links.inside = slowest(neighbours, most_seconds / 3, all);
  }
  return links;
}

}  // namespace tasuki
