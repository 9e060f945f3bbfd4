// Host code of the CUDA backend, tested without a GPU.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tensor/cuda/check.hpp"
#include "tensor/cuda/matmul.hpp"
#include "tensor/out_of_memory.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::caught;

TEST(CheckCuda, NamesCallTextAndCode) {
  EXPECT_NO_THROW(check_cuda(cudaSuccess, "cudaMalloc"));
  const Error error = caught([] { check_cuda(cudaErrorInvalidValue, "cudaMemcpyAsync"); }).value();
  EXPECT_EQ(error.what(),
            std::string("cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue)"));
  EXPECT_EQ(error.kind(), ErrorKind::internal);
}

TEST(CheckCuda, DistinguishesMissingHardwareFromDefects) {
  const auto kind_of = [](cudaError_t code) {
    return caught([&] { check_cuda(code, "call"); }).value().kind();
  };
  EXPECT_EQ(kind_of(cudaErrorMemoryAllocation), ErrorKind::unavailable);
  EXPECT_EQ(kind_of(cudaErrorNoDevice), ErrorKind::unavailable);
  EXPECT_EQ(kind_of(cudaErrorECCUncorrectable), ErrorKind::io);
  EXPECT_EQ(kind_of(cudaErrorIllegalAddress), ErrorKind::internal);
}

TEST(CheckCuda, SuggestsWhereToLookForTheCause) {
  const auto message = [](cudaError_t code) {
    return std::string(caught([&] { check_cuda(code, "call"); }).value().what());
  };
  EXPECT_NE(message(cudaErrorIllegalAddress).find("earlier work on the device"), std::string::npos);
  EXPECT_NE(message(cudaErrorNoKernelImageForDevice).find("TASUKI_CUDA_ARCHITECTURES"),
            std::string::npos);
}

TEST(CheckCublas, NamesCallTextAndCode) {
  EXPECT_NO_THROW(check_cublas(CUBLAS_STATUS_SUCCESS, "cublasLtMatmul"));
  const Error error =
      caught([] { check_cublas(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul"); }).value();
  const std::string message = error.what();
  EXPECT_NE(message.find("cublasLtMatmul failed: "), std::string::npos) << message;
  EXPECT_NE(message.find("CUBLAS_STATUS_NOT_SUPPORTED"), std::string::npos) << message;
}

TEST(OutOfMemory, HasReadableAndMachineReadableFigures) {
  constexpr std::size_t mib = 1 << 20;
  const OutOfMemory error(
      {Device::cuda(2), 512 * mib, 100 * mib, 1000 * mib, 700 * mib, 800 * mib});
  EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  EXPECT_EQ(error.figures().requested, 512 * mib);
  EXPECT_EQ(std::string(error.what())
                .find("cuda:2 is out of memory: 512.0 MiB more were asked for, "
                      "100.0 of 1000.0 MiB are free, this process holds 800.0 MiB (700.0 in use)"),
            0U)
      << error.what();
}

TEST(MatmulKey, ContainsEverythingAlgorithmsDependOn) {
  alignas(256) std::array<std::byte, 1024> memory{};
  MatrixProduct product{.m = 3,
                        .n = 4,
                        .k = 5,
                        .a = memory.data(),
                        .b = memory.data() + 256,
                        .c = memory.data() + 512};
  const auto key_of = [](const MatrixProduct& p) { return MatmulKey(p, false, false); };
  const MatmulKey key = key_of(product);
  EXPECT_EQ(key, key_of(product));
  EXPECT_EQ(MatmulKeyHash()(key), MatmulKeyHash()(key_of(product)));

  std::vector<MatrixProduct> others(11, product);
  others[0].m = 4;
  others[1].n = 3;
  others[2].k = 4;
  others[3].transpose_a = true;
  others[4].transpose_b = true;
  others[5].operands = DType::bfloat16;
  others[6].result = DType::float16;
  others[7].beta = 1;
  const float bias = 0;
  others[8].bias = &bias;
  others[9].relu = true;
  alignas(256) std::array<float, 64> sums{};
  others[10].row_sums = sums.data();
  for (const MatrixProduct& other : others) {
    EXPECT_NE(key_of(other), key);
    EXPECT_NE(MatmulKeyHash()(key_of(other)), MatmulKeyHash()(key));
  }
  EXPECT_NE(MatmulKey(product, true, false), key);  // TF32
  EXPECT_NE(MatmulKey(product, false, true), key);  // timed

  // Addresses count by their alignment alone.
  MatrixProduct moved = product;
  moved.a = memory.data() + 768;
  EXPECT_EQ(key_of(moved), key);
  moved.a = memory.data() + 4;
  EXPECT_NE(key_of(moved), key);
}

TEST(MatmulKey, UsesTf32OnlyForFloat32) {
  MatrixProduct product{.m = 1, .n = 1, .k = 1, .operands = DType::bfloat16};
  EXPECT_EQ(MatmulKey(product, true, false), MatmulKey(product, false, false));
}

TEST(MatmulKey, AlignmentIsAPowerOfTwo) {
  const auto of = [](std::uintptr_t address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are what is tested
    return alignment_of(reinterpret_cast<const void*>(address));
  };
  EXPECT_EQ(of(0x1000), 256U);
  EXPECT_EQ(of(0x1040), 64U);
  EXPECT_EQ(of(0x1002), 2U);
  EXPECT_EQ(of(0x1001), 1U);
}

TEST(MatmulAlgorithms, SearchesOncePerKey) {
  MatmulAlgorithms algorithms;
  int asked = 0;
  const auto choose = [&] {
    ++asked;
    return std::vector<MatmulAlgorithms::Choice>{{{}, 4096, true}};
  };
  MatrixProduct product{.m = 1, .n = 2, .k = 3};
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(algorithms.get(MatmulKey(product, false, false), choose).choices.at(0).workspace,
              4096U);
  EXPECT_EQ(asked, 1);
  product.k = 4;
  algorithms.get(MatmulKey(product, false, false), choose);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace tasuki
