// TransferSizes: limits for the bytes of one message or copy.
#pragma once

#include <cstdint>

namespace tasuki {

// The same on all ranks. The defaults are good; tests lower them to get many pieces from few
// values.
struct TransferSizes {
  // The maximum for one MPI call (but at least one element), 1 .. INT_MAX. Far below the limit of
  // MPI's counts, so that slow links show progress between calls.
  std::int64_t mpi_call = std::int64_t{64} << 20;
  // The maximum for a message of an allreduce. The default is the most that Open MPI sends over TCP
  // without asking the receiver first (64 KiB with its header), which keeps a link of 1 Gbit/s
  // busier than longer messages.
  std::int64_t message_chunk = std::int64_t{60} << 10;
  // The minimum for a copy between GPU and host, unless fewer bytes are left.
  std::int64_t gpu_copy = std::int64_t{1} << 20;
};

}  // namespace tasuki
