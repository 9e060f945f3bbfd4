// The ranks at the two ends of a stream, and who sends to whom.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "communicator/mpi/mpi.hpp"
#include "core/range.hpp"
#include "dataset/field.hpp"

namespace tasuki {

// The receivers (by their place among all receivers) to which sender number `sender` deals its
// examples in turn. Both ends are divided into as many groups of equal size as possible (their
// greatest common divisor), and a sender deals to all receivers of its group: receivers get equally
// many examples if senders send equally many.
Range receivers_of(int sender, int senders, int receivers);

// Messages: examples travel from senders to receivers, news from receivers to senders.
enum class StreamTag : int { examples = 0, news = 1 };

// The start of a message with examples.
struct StreamMessage {
  std::int64_t count = 0;    // examples that follow; `farewell`: the sender's last message
  std::int64_t dropped = 0;  // examples that the sender has dropped so far
  static constexpr std::int64_t farewell = -1;
};

// News: how many examples the receiver has taken in from this sender so far, or one of these.
struct StreamNews {
  static constexpr std::int64_t no_more = -1;   // the receiver wants no more examples
  static constexpr std::int64_t farewell = -2;  // its last message, in answer to the sender's
};

struct StreamEnds {
  MpiComm comm;                         // all ranks, for the stream's messages alone
  MpiComm side;                         // the ranks at this rank's end
  std::vector<int> senders, receivers;  // ranks of `comm`

  // Of this rank: the ranks at the other end that it exchanges messages with.
  std::vector<int> partners;
};

// Collective over `comm`. All ranks throw the same error if no rank receives, or if their fields
// differ.
StreamEnds connect_stream(MPI_Comm comm, bool receives, std::span<const Field> fields);

}  // namespace tasuki
