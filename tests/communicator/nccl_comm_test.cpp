// NcclComm with a fake NCCL that returns what a test sets: every call ends, and every error is one
// line.
#include "communicator/cuda/nccl_comm.hpp"

#include <gtest/gtest.h>

#include "core/environment.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/fake_nccl/fake_nccl.hpp"

namespace tasuki {
namespace {

using testing::caught;
using testing::fake_nccl;

constexpr NcclLimits short_limits{.call = std::chrono::milliseconds(50),
                                  .farewell = std::chrono::milliseconds(50),
                                  .abort = std::chrono::milliseconds(50)};

class NcclCommTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto& nccl = fake_nccl();
    nccl.answer = ncclInProgress;
    nccl.turns_in_progress = 3;
    nccl.state = ncclSuccess;
    nccl.last_error.clear();
    nccl.aborted = nccl.finalized = nccl.destroyed = nccl.registered = nccl.deregistered = 0;
  }
  static std::unique_ptr<NcclComm> connect() {
    return std::make_unique<NcclComm>(Bytes(sizeof(ncclUniqueId)), 1, 4, Device::cuda(2),
                                      short_limits);
  }
  static void exchange(NcclComm& comm) {
    comm.call("ncclAllReduce", [](ncclComm_t handle) {
      return ncclAllReduce(nullptr, nullptr, 1, ncclFloat32, ncclSum, handle, nullptr);
    });
  }
  static std::string place() { return "on rank 1 of 4 GPUs (" + host_name() + ", cuda:2): "; }
};

TEST_F(NcclCommTest, WaitsUntilNcclAcceptsACall) {
  {
    const auto comm = connect();
    exchange(*comm);
    fake_nccl().answer = ncclSuccess;
    exchange(*comm);
    ncclResult_t state = ncclInProgress;
    comm->call("a look", [&](ncclComm_t handle) { return ncclCommGetAsyncError(handle, &state); });
    EXPECT_EQ(state, ncclSuccess) << "a call returned before it was done";
  }
  EXPECT_EQ(fake_nccl().finalized, 1);
  EXPECT_EQ(fake_nccl().destroyed, 1);
  EXPECT_EQ(fake_nccl().aborted, 0);
}

TEST_F(NcclCommTest, AbortsOnErrorsAndRemembersThem) {
  const auto comm = connect();
  fake_nccl().answer = ncclSystemError;
  fake_nccl().last_error = "socketStartConnect: refused\n";
  const Error first = caught([&] { exchange(*comm); }).value();
  EXPECT_EQ(first.kind(), ErrorKind::io);
  const std::string text = first.what();
  EXPECT_EQ(text.find("ncclAllReduce failed " + place() + "ncclSystemError"), 0u) << text;
  EXPECT_NE(text.find("NCCL's last error: socketStartConnect: refused"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(fake_nccl().aborted, 1);
  // Later calls throw the first error, although NCCL would now return another one.
  fake_nccl().answer = ncclSuccess;
  fake_nccl().last_error = "something else";
  EXPECT_EQ(caught([&] { exchange(*comm); }).value().what(), text);
  EXPECT_EQ(fake_nccl().aborted, 1);
}

TEST_F(NcclCommTest, ReportsErrorsDuringACall) {
  const auto comm = connect();
  fake_nccl().state = ncclRemoteError;
  const std::string text = caught([&] { exchange(*comm); }).value().what();
  EXPECT_EQ(text.find("ncclAllReduce failed " + place() + "ncclRemoteError"), 0u) << text;
}

TEST_F(NcclCommTest, TimesOutOnMissingRanks) {
  fake_nccl().turns_in_progress = -1;
  const Error while_connecting = caught([] { connect(); }).value();
  EXPECT_EQ(while_connecting.kind(), ErrorKind::hang);
  const std::string text = while_connecting.what();
  EXPECT_EQ(text.find("ncclCommInitRankConfig failed " + place()), 0u) << text;
  EXPECT_NE(text.find("no answer from the other ranks in 0.05 seconds"), std::string::npos) << text;
  EXPECT_EQ(fake_nccl().aborted, 1);

  fake_nccl().turns_in_progress = 0;
  const auto comm = connect();
  fake_nccl().turns_in_progress = -1;
  EXPECT_EQ(caught([&] { exchange(*comm); }).value().kind(), ErrorKind::hang);
}

TEST_F(NcclCommTest, FindsLateErrorsWhenChecked) {
  const auto comm = connect();
  comm->check_async();
  fake_nccl().state = ncclRemoteError;
  constexpr bool skip_if_busy = true;
  const std::string text = caught([&] { comm->check_async(skip_if_busy); }).value().what();
  EXPECT_EQ(text.find("an exchange by NCCL failed " + place() + "ncclRemoteError"), 0u) << text;
  EXPECT_EQ(fake_nccl().aborted, 1);
}

// Like NCCL while a recording holds an exchange.
TEST_F(NcclCommTest, ReportsErrorsDespiteAHangingAbort) {
  auto comm = connect();
  fake_nccl().abort_hangs = true;
  fake_nccl().answer = ncclInternalError;
  EXPECT_EQ(caught([&] { exchange(*comm); }).value().kind(), ErrorKind::io);
  comm.reset();
  EXPECT_EQ(fake_nccl().aborted, 1);
  EXPECT_EQ(fake_nccl().finalized, 0);
  fake_nccl().abort_hangs = false;
}

TEST_F(NcclCommTest, LimitsShutdownWithoutOtherRanks) {
  auto comm = connect();
  fake_nccl().turns_in_progress = -1;
  comm.reset();
  EXPECT_EQ(fake_nccl().finalized, 1);
  EXPECT_EQ(fake_nccl().aborted, 1);
  EXPECT_EQ(fake_nccl().destroyed, 0);
}

TEST_F(NcclCommTest, AbortsDuringStackUnwinding) {
  EXPECT_THROW(
      {
        const auto comm = connect();
        fail(ErrorKind::data, "of something else");
      },
      Error);
  EXPECT_EQ(fake_nccl().aborted, 1);
  EXPECT_EQ(fake_nccl().finalized, 0);
}

TEST_F(NcclCommTest, RegistersMemoryOnceOrContinuesWithout) {
  float values[2] = {};
  auto comm = connect();
  comm->register_memory(&values[0], sizeof(float));
  comm->register_memory(&values[0], sizeof(float));
  EXPECT_EQ(fake_nccl().registered, 1);
  comm->forget_memory(&values[0]);
  EXPECT_EQ(fake_nccl().deregistered, 1);
  fake_nccl().answer = ncclInvalidUsage;
  comm->register_memory(&values[1], sizeof(float));
  fake_nccl().answer = ncclSuccess;
  exchange(*comm);  // goes on
  comm.reset();
  EXPECT_EQ(fake_nccl().deregistered, 1);
}

}  // namespace
}  // namespace tasuki
