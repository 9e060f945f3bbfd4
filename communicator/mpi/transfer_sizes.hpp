// TransferSizes: how many bytes messages and copies carry at a time.
#pragma once

#include <cstdint>

namespace tasuki {

// The same on all ranks. The defaults are good; tests lower them to meet many pieces with few
// values.
struct TransferSizes {
  // Bytes handed to one MPI call at most (but one element at least), 1 .. INT_MAX. Far below what
  // MPI's counts hold, so that slow links show progress between calls.
  std::int64_t mpi_call = std::int64_t{64} << 20;
  // Bytes of a message of an allreduce at most. The default is what Open MPI sends over TCP without
  // asking the receiver first (64 KiB with its header): it keeps a link of 1 Gbit/s busier than
  // longer messages do.
  std::int64_t message_chunk = std::int64_t{60} << 10;
  // Bytes that a copy between GPU and host carries at least, where there are as many.
  std::int64_t gpu_copy = std::int64_t{1} << 20;
};

}  // namespace tasuki
