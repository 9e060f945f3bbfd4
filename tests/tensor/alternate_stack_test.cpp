// Threads that compute have alternate signal stacks where oneDNN needs them, also those that OpenMP
// ended and created again.
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "core/alternate_stack.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

stack_t present_stack() {
  stack_t stack{};
  EXPECT_EQ(sigaltstack(nullptr, &stack), 0);
  return stack;
}

bool has_stack() {
  return (present_stack().ss_flags & SS_DISABLE) == 0;
}

// Threads of a full team that have one.
int protected_threads(int threads) {
  std::atomic<int> count = 0;
#pragma omp parallel num_threads(threads)
  if (has_stack()) ++count;
  return count;
}

// How many of them have to have one.
int needed(int threads) {
  return sgemm_needs_alternate_stacks() ? threads : 0;
}

TEST(AlternateStack, LivesAsLongAsItsThread) {
  void* stack = nullptr;
  std::thread([&] {
    EXPECT_FALSE(has_stack());
    use_alternate_stack();
    use_alternate_stack();
    ASSERT_TRUE(has_stack());
    EXPECT_GE(present_stack().ss_size, std::size_t{64} << 10);
    stack = present_stack().ss_sp;
    EXPECT_EQ(msync(stack, 1, MS_ASYNC), 0);
  }).join();
  EXPECT_NE(msync(stack, 1, MS_ASYNC), 0) << "it is still mapped";
}

TEST(AlternateStack, KeepsAStackInstalledByOthers) {
  std::thread([] {
    static char memory[1 << 16];
    stack_t own{};
    own.ss_sp = memory;
    own.ss_size = sizeof(memory);
    ASSERT_EQ(sigaltstack(&own, nullptr), 0);
    use_alternate_stack();
    EXPECT_EQ(present_stack().ss_sp, memory);
  }).join();
}

TEST(AlternateStack, IsInstalledForAllThreadsOfATeam) {
  for (const int threads : {2, 3, 4}) {
    std::thread([threads] {
      set_cpu_threads(threads);
#ifndef __clang__  // its runtime gives a new team the threads of former ones
      EXPECT_EQ(protected_threads(threads), 0);
#endif
      protect_team();
      EXPECT_EQ(protected_threads(threads), needed(threads));
      // A small loop's team ends the threads that it does not need.
      parallel_for(2, 1, [](std::int64_t, std::int64_t) {});
      protect_team();
      EXPECT_EQ(protected_threads(threads), needed(threads));
    }).join();
  }
}

TEST(AlternateStack, IsInstalledByTheFirstProduct) {
  std::thread([] {
    set_cpu_threads(2);
    const Tensor x = Tensor::full({8, 64}, 1), w = Tensor::full({16, 64}, 1);
    EXPECT_EQ(backend(Device::cpu()).linear(x, w, Tensor(), false).shape(), (Shape{8, 16}));
    EXPECT_EQ(protected_threads(2), needed(2));
  }).join();
}

}  // namespace
}  // namespace tasuki
