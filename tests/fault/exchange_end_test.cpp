// However NCCL fails on one rank, the job ends soon with one line that says which rank, where, what
// and NCCL's own words.

#include <gtest/gtest.h>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "tests/support/launch.hpp"

namespace tasuki::testing {
namespace {

struct Fault {
  const char* kind;
  ErrorKind error;
  const char* words;
};

class ExchangeFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(ExchangeFaults, EndJobInOneLine) {
  const Fault& fault = GetParam();
  const Finished job = run_program(mpirun(2, {FAULTY_EXCHANGE, fault.kind}), 30);
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(fault.error)) << job.all();
  const std::string place = fmt::format("failed on rank 1 of 2 GPUs ({}, cuda:1): ", host_name());
  const std::string begin = fmt::format("rank 1 on {}: ", host_name());
  EXPECT_EQ(count_of(job.err, place), 1) << job.all();
  const auto at = job.err.find(begin);
  ASSERT_NE(at, std::string::npos) << job.all();
  const std::string line = job.err.substr(at, job.err.find('\n', at) - at);
  EXPECT_NE(line.find(place), std::string::npos) << line;
  EXPECT_NE(line.find(fault.words), std::string::npos) << line;
}

INSTANTIATE_TEST_SUITE_P(
    All, ExchangeFaults,
    ::testing::Values(Fault{"async", ErrorKind::io, "NCCL's last error: planted in NCCL"},
                      Fault{"late", ErrorKind::hang, "no answer from the other ranks in 0.3 sec"},
                      Fault{"call", ErrorKind::io, "ncclUnhandledCudaError"}),
    [](const auto& info) { return std::string(info.param.kind); });

}  // namespace
}  // namespace tasuki::testing
