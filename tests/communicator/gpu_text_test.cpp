// Small functions behind the GPU communicators: parts, wire formats, NCCL's errors as texts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "communicator/gpu/gpu_transport.hpp"
#include "communicator/gpu/nccl_failure.hpp"
#include "communicator/gpu/shared_gpu.hpp"
#include "core/error.hpp"
#include "tensor/half.hpp"

namespace tasuki {
namespace {

TEST(GpuPart, DividesEquallyAlignedAndCompletely) {
  for (const std::int64_t count : {0, 1, 31, 32, 33, 127, 128, 1000, 4096, 1'000'003}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      std::int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = gpu_part(count, DType::float32, rank, ranks);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.begin % 32, 0) << count << " elements, rank " << rank << " of " << ranks;
        if (rank < ranks - 1) {
          EXPECT_EQ(part.size(), gpu_part(count, DType::float32, 0, ranks).size());
        }
        end = part.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

// NCCL refuses two ranks on one GPU unless all of this is set; the user's values stay.
TEST(SharedGpu, SetsWhatNcclNeeds) {
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  ::setenv("NCCL_NVLS_ENABLE", "2", 1);
  prepare_shared_gpu(3, true);
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  EXPECT_TRUE(value_of("NCCL_HOSTID").ends_with("-rank3"));
  EXPECT_EQ(value_of("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
  EXPECT_EQ(value_of("NCCL_NVLS_ENABLE"), "2");
  ::unsetenv("NCCL_NVLS_ENABLE");
  prepare_shared_gpu(3, true);
  EXPECT_EQ(value_of("NCCL_NVLS_ENABLE"), "0");
}

TEST(WireFormat, ScalesOnlyFloat16) {
  EXPECT_EQ(wire_format(DType::float32, 8, 1000).factor, 1);
  EXPECT_EQ(wire_format(DType::bfloat16, 8, 1000).factor, 1);
  EXPECT_EQ(wire_format(DType::float16, 1, 0).factor, 1);
  EXPECT_EQ(wire_format(DType::float16, 4, 0).factor, 0.25f);
  EXPECT_EQ(wire_format(DType::float16, 3, 0).factor, 0.25f);
  EXPECT_EQ(wire_format(DType::float16, 4, 100).factor, 1.0f / 128);
  EXPECT_EQ(wire_format(DType::float16, 4, 1e9).factor, std::ldexp(1.0f, -14));
}

// Sums that pass float16's largest number travel, and so does a single 1.
TEST(WireFormat, KeepsLargeSumsAndSmallIntegers) {
  const int ranks = 8;
  for (const double examples : {64.0, 800.0, 8192.0}) {
    const WireFormat wire = wire_format(DType::float16, ranks, examples);
    // A mean gradient of 100 as each rank's sum over its examples.
    const auto local = static_cast<float>(100 * examples / ranks);
    const float sum = float_from_half(half_from_float(local * wire.factor)) * ranks;
    EXPECT_LT(sum, 65504) << examples << " examples";
    EXPECT_NEAR(sum / wire.factor, 100 * examples, 0.1 * examples);
  }
  const WireFormat smallest = wire_format(DType::float16, ranks, 1e12);
  EXPECT_EQ(float_from_half(half_from_float(smallest.factor)) / smallest.factor, 1);
}

TEST(NcclFailure, NamesRankPlaceCallAndNcclsMessage) {
  const std::string text = describe({.code = 5,
                                     .operation = "ncclCommInitRankConfig",
                                     .rank = 1,
                                     .ranks = 4,
                                     .host = "node-a",
                                     .gpu = "cuda:1",
                                     .last_error = "Duplicate GPU detected :\nrank 1 and 0\n"});
  EXPECT_EQ(text,
            "ncclCommInitRankConfig failed on rank 1 of 4 GPUs (node-a, cuda:1): "
            "ncclInvalidUsage, NCCL does not allow this; several ranks on one GPU, for example, "
            "need --share-gpu; NCCL's last error: Duplicate GPU detected : rank 1 and 0");
}

TEST(NcclFailure, HandlesUnknownCodesAndMissingDetails) {
  EXPECT_EQ(nccl_code_name(6), "ncclRemoteError");
  const std::string text = describe(
      {.code = 42, .operation = "ncclAllReduce", .host = "b", .gpu = "cuda:0", .last_error = ""});
  EXPECT_EQ(text, "ncclAllReduce failed on rank 0 of 1 GPUs (b, cuda:0): NCCL error 42");
}

}  // namespace
}  // namespace tasuki
