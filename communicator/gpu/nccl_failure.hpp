// Describes a failure of NCCL in one line: rank, host, operation, NCCL's own text, and what to do.
#pragma once

#include <string>

namespace tasuki {

struct NcclFailure {
  int code = 0;             // ncclResult_t
  std::string operation;    // "ncclAllReduce"
  int rank = 0, ranks = 1;  // in the group of GPUs
  std::string host, gpu;    // "cuda:1 (0000:4f:00.0)"
  std::string last_error;   // ncclGetLastError's text, possibly empty
};

// "ncclUnhandledCudaError" for 1, "NCCL error 42" for an unknown code.
std::string nccl_code_name(int code);

// "ncclAllReduce failed on rank 1 of 4 (node-a, cuda:1): ncclRemoteError: ...; last error: ...".
std::string describe(const NcclFailure& failure);

}  // namespace tasuki
