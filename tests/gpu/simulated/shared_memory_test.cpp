// How much shared memory a block of the simulated GPU may have.
#include "shared_use.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace tasuki::testing {
namespace {

constexpr std::size_t kibibyte = 1024, most = 48 * kibibyte;

// What a launch says; its work is done.
cudaError_t run(const SharedUse& use) {
  launch_shared(use);
  const cudaError_t answer = cudaGetLastError();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return answer;
}

TEST(SimulatedSharedMemory, IsLimitedTo48KilobytesUnlessAKernelIsAllowedMore) {
  EXPECT_EQ(run({false, most, most}), cudaSuccess);
  EXPECT_EQ(run({false, most + 1, 0}), cudaErrorInvalidValue);
  EXPECT_EQ(attributes_of_shared(false).maxDynamicSharedSizeBytes, static_cast<int>(most));
  ASSERT_EQ(allow_shared(false, 100 * kibibyte), cudaSuccess);
  EXPECT_EQ(attributes_of_shared(false).maxDynamicSharedSizeBytes, 100 * 1024);
  EXPECT_EQ(run({false, 100 * kibibyte, 100 * kibibyte}), cudaSuccess);
  EXPECT_EQ(run({false, 100 * kibibyte + 1, 0}), cudaErrorInvalidValue);
  // The other kernel was not asked for.
  EXPECT_EQ(run({true, most + 1, 0}), cudaErrorInvalidValue);
}

TEST(SimulatedSharedMemory, IsLimitedByTheDevice) {
  for (const auto& [capability, limit] :
       {std::pair{75, 64}, {80, 163}, {86, 99}, {89, 99}, {90, 227}, {100, 227}}) {
    SCOPED_TRACE(capability);
    ::setenv("SIMULATED_CUDA_CAPABILITY", std::to_string(capability).c_str(), 1);
    int found = 0;
    EXPECT_EQ(cudaDeviceGetAttribute(&found, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
              cudaSuccess);
    EXPECT_EQ(found, limit * 1024);
    const std::size_t bytes = static_cast<std::size_t>(limit) * kibibyte;
    EXPECT_EQ(allow_shared(false, bytes), cudaSuccess);
    EXPECT_EQ(run({false, bytes, bytes}), cudaSuccess);
    EXPECT_EQ(allow_shared(false, bytes + 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_EQ(run({false, bytes, 0}), cudaSuccess);
  }
  ::unsetenv("SIMULATED_CUDA_CAPABILITY");
}

TEST(SimulatedSharedMemory, IncludesWhatAKernelDeclares) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string message = "refuse to launch a block with so much shared memory";
  EXPECT_EQ(run({true, most - declared_bytes, 0}), cudaSuccess);
  EXPECT_EQ(attributes_of_shared(true).sharedSizeBytes, declared_bytes);
  EXPECT_DEATH(run({true, most, 0}), message);
  const std::size_t device = 227 * kibibyte;
  ASSERT_EQ(allow_shared(true, device), cudaSuccess);
  EXPECT_EQ(run({true, device - declared_bytes, 0}), cudaSuccess);
  EXPECT_DEATH(run({true, device, 0}), message);
}

TEST(SimulatedSharedMemory, EndsWhereTheLaunchSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EQ(run({false, 256, 256}), cudaSuccess);
  EXPECT_DEATH(run({false, 256, 260}), "written behind its dynamic shared memory");
}

}  // namespace
}  // namespace tasuki::testing
