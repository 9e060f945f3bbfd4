// What a kernel must not do on a GPU and a processor would allow: the simulation refuses it.
#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

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

}  // namespace
}  // namespace tasuki::testing
