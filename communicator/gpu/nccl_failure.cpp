#include "communicator/gpu/nccl_failure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace tasuki {
namespace {

// ncclResult_t by its values, which are part of NCCL's binary interface.
struct Code {
  const char* name;
  const char* meaning;
};
constexpr std::array<Code, 8> codes{{
    {"ncclSuccess", "no error"},
    {"ncclUnhandledCudaError",
     "a CUDA call inside NCCL failed; an earlier error of this GPU or too little memory on it are "
     "the usual causes"},
    {"ncclSystemError",
     "a system call failed (sockets, shared memory or limits); NCCL_DEBUG=WARN names it"},
    {"ncclInternalError", "a defect in NCCL, or overwritten memory; NCCL_DEBUG=WARN says more"},
    {"ncclInvalidArgument", "an argument that NCCL does not accept"},
    {"ncclInvalidUsage",
     "NCCL does not allow this; several ranks on one GPU, for example, need --share-gpu"},
    {"ncclRemoteError",
     "another rank failed or the connection to it broke; that rank's error says more"},
    {"ncclInProgress", "not finished yet"},
}};

// NCCL's texts end with a newline, and some have several lines.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string nccl_code_name(int code) {
  if (code < 0 || code >= static_cast<int>(codes.size())) return fmt::format("NCCL error {}", code);
  return codes[static_cast<std::size_t>(code)].name;
}

std::string describe(const NcclFailure& failure) {
  const bool known = failure.code >= 0 && failure.code < static_cast<int>(codes.size());
  std::string text =
      fmt::format("{} failed on rank {} of {} GPUs ({}, {}): {}", failure.operation, failure.rank,
                  failure.ranks, failure.host, failure.gpu, nccl_code_name(failure.code));
  if (known) text += fmt::format(", {}", codes[static_cast<std::size_t>(failure.code)].meaning);
  if (const auto last = one_line(failure.last_error); !last.empty())
    text += fmt::format("; NCCL's last error: {}", last);
  return text;
}

}  // namespace tasuki
