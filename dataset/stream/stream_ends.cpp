#include "dataset/stream/stream_ends.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/hash.hpp"
#include "dataset/stream/example_buffer.hpp"

namespace tasuki {
namespace {

[[noreturn]] void refuse_fields(const MpiComm& comm, int other, const std::string& own) {
  std::array<std::array<char, 256>, 2> texts{};
  const std::array<int, 2> ranks{0, other};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::copy_n(own.begin(), std::min(own.size(), texts[i].size() - 1), texts[i].begin());
    TASUKI_MPI(MPI_Bcast, texts[i].data(), static_cast<int>(texts[i].size()), MPI_CHAR, ranks[i],
               comm.get());
  }
  throw Error(ErrorKind::disagreement,
              fmt::format("a stream: rank 0 gave the fields {} but rank {} gave {}; all must agree",
                          texts[0].data(), other, texts[1].data()),
              scope_of_shared_error(comm.get()));
}

struct Introduction {
  std::uint64_t receives, hash;
};

}  // namespace

Range receivers_of(int sender, int senders, int receivers) {
  TASUKI_CHECK(0 <= sender && sender < senders && receivers > 0, "sender {} of {}, {} receivers",
               sender, senders, receivers);
  const int groups = std::gcd(senders, receivers);
  const int group = sender / (senders / groups), receivers_of_group = receivers / groups;
  return {group * receivers_of_group, (group + 1) * receivers_of_group};
}

StreamEnds connect_stream(MPI_Comm comm, bool receives, std::span<const Field> fields) {
  if (comm == MPI_COMM_NULL)
    fail(ErrorKind::usage, "a stream: expected a communicator, found MPI_COMM_NULL");
  StreamEnds ends;
  ends.comm = MpiComm::duplicate(comm);
  const std::string description = text_of(fields);
  const Introduction own{receives ? 1U : 0U, hash_text(description)};
  std::vector<Introduction> all(static_cast<std::size_t>(ends.comm.size()));
  TASUKI_MPI(MPI_Allgather, &own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE,
             ends.comm.get());
  for (int rank = 0; rank < ends.comm.size(); ++rank) {
    const Introduction& each = all[static_cast<std::size_t>(rank)];
    if (each.hash != all.front().hash) refuse_fields(ends.comm, rank, description);
    (each.receives != 0 ? ends.receivers : ends.senders).push_back(rank);
  }
  if (ends.receivers.empty())
    throw Error(ErrorKind::usage,
                "a stream: no rank receives its examples; make a StreamIterator on the ranks that "
                "train",
                scope_of_shared_error(ends.comm.get()));
  ends.side = MpiComm::split(ends.comm.get(), receives ? 1 : 0, ends.comm.rank());
  const auto senders = static_cast<int>(ends.senders.size()),
             receivers = static_cast<int>(ends.receivers.size());
  for (int sender = 0; sender < senders; ++sender) {
    const Range range = receivers_of(sender, senders, receivers);
    for (std::int64_t place = range.begin; place < range.end; ++place) {
      const int from = ends.senders[static_cast<std::size_t>(sender)],
                to = ends.receivers[static_cast<std::size_t>(place)];
      if (from == ends.comm.rank()) ends.partners.push_back(to);
      if (to == ends.comm.rank()) ends.partners.push_back(from);
    }
  }
  return ends;
}

}  // namespace tasuki
