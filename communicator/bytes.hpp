// Exchanges bytes between ranks. Their number may differ between ranks.
//
// The rules for all operations in communicator.hpp apply: all functions except send_bytes() and
// recv_bytes() are collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tasuki {

class Communicator;

using Bytes = std::vector<std::byte>;

// For receiving the first message from any rank, or with any tag. Tags are 0 .. 32767 (the range
// that MPI guarantees; most libraries accept larger ones).
inline constexpr int any_source = -1;
inline constexpr int any_tag = -1;

// The sender and the tag of a received message.
struct MessageInfo {
  int source = 0;
  int tag = 0;
};

// May block until the receiver has called recv_bytes(); see Communicator::send().
void send_bytes(Communicator& communicator, std::span<const std::byte> bytes, int dest,
                int tag = 0);
Bytes recv_bytes(Communicator& communicator, int source, int tag = any_tag,
                 MessageInfo* info = nullptr);

// Returns the root's bytes, which travel in chunks of at most `chunk` bytes (1 .. INT_MAX - 1).
// Other ranks' bytes are not read.
Bytes bcast_bytes(Communicator& communicator, std::span<const std::byte> bytes, int root = 0,
                  std::int64_t chunk = std::int64_t{256} << 20);
// Element i of the result is from rank i; empty on ranks other than the root.
std::vector<Bytes> gather_bytes(Communicator& communicator, std::span<const std::byte> bytes,
                                int root = 0);
std::vector<Bytes> allgather_bytes(Communicator& communicator, std::span<const std::byte> bytes);
// Returns the root's parts[rank]. The root passes one part per rank; others may pass none.
Bytes scatter_bytes(Communicator& communicator, std::span<const Bytes> parts, int root = 0);

}  // namespace tasuki
