// What a kernel must not do on a GPU and a processor would allow: the simulation refuses it.
#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "matrices.hpp"
#include "vectors.hpp"

namespace tasuki::testing {
namespace {

class SimulatedKernel : public ::testing::Test {
 protected:
  SimulatedKernel() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EQ(cudaMalloc(&block_, 1024), cudaSuccess);
  }
  ~SimulatedKernel() override { EXPECT_EQ(cudaFree(block_), cudaSuccess); }

  [[nodiscard]] std::byte* place(std::size_t offset) const {
    return static_cast<std::byte*>(block_) + offset;
  }
  // From one place of device memory to another, by one thread.
  void copy(Vector vector, std::size_t to, std::size_t from) const {
    copy_vector({}, vector, place(to), place(from));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  // Four words of each lane of a warp.
  [[nodiscard]] std::array<std::uint32_t, 128> load(bool transposed, std::size_t offset) const {
    auto* const words = static_cast<std::uint32_t*>(block_);
    load_rows({}, transposed, offset, words);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    std::array<std::uint32_t, 128> found{};
    EXPECT_EQ(cudaMemcpyAsync(found.data(), words, sizeof(found), cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return found;
  }

 private:
  void* block_ = nullptr;
};

struct Aligned {
  Vector vector;
  std::size_t bytes;
};
constexpr std::array vectors = {Aligned{Vector::pack, 16}, Aligned{Vector::four_halves, 8},
                                Aligned{Vector::two_floats, 8}};

TEST_F(SimulatedKernel, MovesAlignedVectors) {
  for (const auto& [vector, bytes] : vectors) {
    std::array<std::byte, 16> sent{}, found{};
    sent.fill(std::byte{7});
    ASSERT_EQ(cudaMemcpyAsync(place(bytes), sent.data(), 16, cudaMemcpyHostToDevice, nullptr),
              cudaSuccess);
    copy(vector, 512 + bytes, bytes);
    ASSERT_EQ(
        cudaMemcpyAsync(found.data(), place(512 + bytes), bytes, cudaMemcpyDeviceToHost, nullptr),
        cudaSuccess);
    for (std::size_t i = 0; i < 16; ++i)
      EXPECT_EQ(found.at(i), i < bytes ? std::byte{7} : std::byte{0}) << bytes;
  }
}

TEST_F(SimulatedKernel, DiesOfMisalignedVectors) {
  for (const auto& [vector, bytes] : vectors)
    for (const std::size_t offset : {bytes / 2, bytes / 4}) {
      const std::string message =
          fmt::format("misaligned access to .*is not a multiple of {}", bytes);
      EXPECT_DEATH(copy(vector, 512, offset), message);
      EXPECT_DEATH(copy(vector, 512 + offset, 0), message);
    }
}

// As ldmatrix's figure in the PTX ISA has it: lane l gets row l / 4, columns 2 (l % 4) and one
// more, or that column and those rows.
TEST_F(SimulatedKernel, LoadsMatricesForTensorCores) {
  for (const bool transposed : {false, true}) {
    const auto found = load(transposed, 0);
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
        const auto value = [&](std::uint32_t which) {
          const std::uint32_t g = lane / 4, t = 2 * (lane % 4) + which;
          return 64 * matrix + (transposed ? 8 * t + g : 8 * g + t);
        };
        EXPECT_EQ(found.at(4 * lane + matrix), value(0) | value(1) << 16) << lane;
      }
  }
}

TEST_F(SimulatedKernel, DiesOfMisalignedRowsOfMatrices) {
  for (const bool transposed : {false, true})
    for (const std::size_t offset : {2, 8})
      EXPECT_DEATH(static_cast<void>(load(transposed, offset)),
                   "a row of ldmatrix is not at a multiple of 16 bytes");
}

}  // namespace
}  // namespace tasuki::testing
