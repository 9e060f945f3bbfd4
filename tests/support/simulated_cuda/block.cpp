// Runs the threads of a grid as fibers. A fiber's stack is made once (makecontext) and lives on;
// after that, setjmp and longjmp change between fibers without a system call.
#include <ucontext.h>

#include <array>
#include <chrono>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "kernel.hpp"
#include "queue.hpp"

namespace tasuki::simulated {
namespace {

constexpr unsigned warp_size = 32;
constexpr std::size_t stack_bytes = std::size_t{64} << 10, longest_value = 32;

[[noreturn]] void defect(const char* what) {
  std::fprintf(stderr, "simulated GPU: %s\n", what);
  std::abort();
}

enum class State { ready, at_block_barrier, in_warp_exchange, ended };

struct Fiber {
  Thread place;
  State state = State::ended;
  jmp_buf here{};
  std::unique_ptr<std::byte[]> stack;  // none before the first start
};

// Values of a warp; two, as a lane may begin the next exchange before others have read the last.
struct Exchange {
  alignas(16) std::array<std::array<std::byte, longest_value>, warp_size> values;
  std::array<const void*, warp_size> addresses;
};
struct Warp {
  std::array<Exchange, 2> exchanges;
  std::array<unsigned, warp_size> count{};  // exchanges that a lane has begun
};

// One block at a time.
struct Block {
  std::deque<Fiber> fibers;  // which stay where they are
  std::vector<Warp> warps;
  std::size_t size = 0, running = 0;
  jmp_buf scheduler{};
  const std::function<void()>* kernel = nullptr;
  std::minstd_rand order{1};
};

Block& block() {
  static auto* const instance = new Block;
  return *instance;
}

// Back to the scheduler, until it is this fiber's turn again.
void pause(State state) {
  Fiber& fiber = block().fibers[block().running];
  fiber.state = state;
  if (_setjmp(fiber.here) == 0) _longjmp(block().scheduler, 1);
}

void run_fiber() {
  for (;;) {
    (*block().kernel)();
    pause(State::ended);
  }
}

void resume(Fiber& fiber) {
  if (_setjmp(block().scheduler) != 0) return;
  if (fiber.stack != nullptr) _longjmp(fiber.here, 1);
  fiber.stack = std::make_unique<std::byte[]>(stack_bytes);
  ucontext_t first{};
  getcontext(&first);
  first.uc_stack.ss_sp = fiber.stack.get();
  first.uc_stack.ss_size = stack_bytes;
  makecontext(&first, run_fiber, 0);
  setcontext(&first);
}

// Lets whole warps, or else the whole block, continue; false if all have ended.
bool release() {
  Block& b = block();
  bool any = false, all_ended = true, all_at_barrier = true;
  for (std::size_t begin = 0; begin < b.size; begin += warp_size) {
    const std::size_t end = std::min(begin + warp_size, b.size);
    std::size_t waiting = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const State state = b.fibers[i].state;
      waiting += state == State::in_warp_exchange ? 1 : 0;
      all_ended = all_ended && state == State::ended;
      all_at_barrier =
          all_at_barrier && (state == State::ended || state == State::at_block_barrier);
    }
    if (waiting != warp_size) continue;
    any = true;
    for (std::size_t i = begin; i < end; ++i) b.fibers[i].state = State::ready;
  }
  if (any) return true;
  if (all_ended) return false;
  if (!all_at_barrier) defect("threads wait in a warp that not all 32 of its threads have come to");
  for (std::size_t i = 0; i < b.size; ++i)
    if (b.fibers[i].state == State::at_block_barrier) b.fibers[i].state = State::ready;
  return true;
}

void run_block(const Thread& place) {
  Block& b = block();
  b.size = std::size_t{place.block_size.x} * place.block_size.y * place.block_size.z;
  while (b.fibers.size() < b.size) b.fibers.emplace_back();
  b.warps.assign((b.size + warp_size - 1) / warp_size, Warp{});
  for (std::size_t i = 0; i < b.size; ++i) {
    Fiber& fiber = b.fibers[i];
    const auto number = static_cast<unsigned>(i);
    fiber.place = place;
    fiber.place.index =
        dim3(number % place.block_size.x, number / place.block_size.x % place.block_size.y,
             number / place.block_size.x / place.block_size.y);
    fiber.state = State::ready;
  }
  do {
    // Another order between any two barriers.
    const std::size_t first = b.order() % b.size;
    const bool backwards = b.order() % 2 == 0;
    for (std::size_t i = 0; i < b.size; ++i) {
      const std::size_t turn = (first + i) % b.size;
      b.running = backwards ? b.size - 1 - turn : turn;
      Fiber& fiber = b.fibers[b.running];
      if (fiber.state == State::ready) resume(fiber);
    }
  } while (release());
}

std::size_t count(const dim3& size) {
  return std::size_t{size.x} * size.y * size.z;
}

}  // namespace

const Thread& this_thread() {
  return block().fibers[block().running].place;
}

unsigned lane() {
  return static_cast<unsigned>(block().running % warp_size);
}

unsigned long long nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void block_barrier() {
  pause(State::at_block_barrier);
}

const void* const* exchange_in_warp(const void* value, std::size_t bytes) {
  Warp& warp = block().warps[block().running / warp_size];
  const unsigned own = lane();
  Exchange& exchange = warp.exchanges[warp.count[own]++ % 2];
  if (bytes > longest_value) defect("a shuffle of a value that is too long");
  std::memcpy(exchange.values[own].data(), value, bytes);
  exchange.addresses[own] = exchange.values[own].data();
  pause(State::in_warp_exchange);
  return exchange.addresses.data();
}

void enqueue_kernel(const Configuration& c, std::function<void()> kernel) {
  const bool is_possible = count(c.grid) > 0 && count(c.block) > 0 && count(c.block) <= 1024 &&
                           c.grid.y <= 65535 && c.grid.z <= 65535 && c.block.z <= 64 &&
                           c.grid.x <= 2147483647U && c.shared_bytes <= 48 << 10;
  if (!is_possible) return set_last_error(cudaErrorInvalidConfiguration);
  enqueue(c.stream, [c, kernel = std::move(kernel)] {
    const Access access;  // by one thread at a time
    block().kernel = &kernel;
    const std::size_t blocks = count(c.grid), first = block().order() % blocks;
    for (std::size_t i = 0; i < blocks; ++i) {
      const auto number = static_cast<unsigned>((first + i) % blocks);
      const dim3 at(number % c.grid.x, number / c.grid.x % c.grid.y, number / c.grid.x / c.grid.y);
      run_block({{}, at, c.block, c.grid});
    }
  });
}

}  // namespace tasuki::simulated
