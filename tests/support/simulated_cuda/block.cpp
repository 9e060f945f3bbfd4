// Runs the threads of a grid as fibers. A fiber's stack is made once (makecontext) and lives on;
// after that, the compiler's own setjmp and longjmp change between fibers: they are a few
// instructions, while the C library's look after signals and cancelled threads.
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>

#include "defect.hpp"
#include "kernel.hpp"
#include "queue.hpp"
#include "shared_memory.hpp"

namespace tasuki::simulated {
namespace {

constexpr unsigned warp_size = 32, most_threads = 1024;
constexpr std::size_t stack_bytes = std::size_t{96} << 10, longest_value = 32;

using Place = void* [5];  // what __builtin_setjmp remembers

enum class State { ready, at_block_barrier, in_warp_exchange, ended };

struct Fiber {
  Thread place;
  State state = State::ended;
  Place here{};
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

// Dynamic memory begins with no numbers (NaN), and what is behind it must not change.
struct Shared {
  static constexpr std::size_t guarded = 64, most = std::size_t{256} << 10;
  alignas(16) std::array<std::byte, most + guarded> dynamic;
  std::size_t dynamic_bytes = 0, limit = 0;
  std::map<const void*, std::size_t> declared;

  void clear() {
    std::fill_n(dynamic.begin(), dynamic_bytes + guarded, std::byte{0xFF});
    declared.clear();
  }
  [[nodiscard]] std::size_t declared_bytes() const {
    std::size_t sum = 0;
    for (const auto& [place, bytes] : declared) sum += bytes;
    return sum;
  }
  void check() const {
    const auto* const end = dynamic.data() + dynamic_bytes;
    if (std::any_of(end, end + guarded, [](std::byte each) { return each != std::byte{0xFF}; }))
      defect("a block has written behind its dynamic shared memory");
  }
};

// One block at a time.
struct Block {
  std::array<Fiber, most_threads> fibers;
  std::array<Warp, most_threads / warp_size> warps;
  std::size_t size = 0, running = 0;
  std::size_t next = 0,
              left = 0;  // whose turn it is after the running one's, and how many have none yet
  bool is_backwards = false;
  Place scheduler{};
  const std::function<void()>* kernel = nullptr;
  std::minstd_rand order{1};
  Shared shared;
};

Block& block() {
  static auto* const instance = new Block;
  return *instance;
}

void run_fiber();

// Stacks begin at different places of a page, or the tops of all would compete for the same lines
// of a cache.
[[noreturn]] void start(Fiber& fiber) {
  fiber.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  ucontext_t first{};
  getcontext(&first);
  first.uc_stack.ss_sp = fiber.stack.get();
  first.uc_stack.ss_size = stack_bytes - 1024 * (block().running % 32);
  makecontext(&first, run_fiber, 0);
  setcontext(&first);
  std::abort();
}

// To the next fiber that can run; to the scheduler when all have had their turn. Not inlined: one
// function must not both set and take a place.
[[gnu::noinline]] [[noreturn]] void go_on() {
  Block& b = block();
  while (b.left > 0) {
    --b.left;
    Fiber& fiber = b.fibers[b.running = b.next];
    if (b.is_backwards)
      b.next = (b.next == 0 ? b.size : b.next) - 1;
    else
      b.next = b.next + 1 == b.size ? 0 : b.next + 1;
    if (fiber.state != State::ready) continue;
    if (fiber.stack == nullptr) start(fiber);
    __builtin_longjmp(fiber.here, 1);
  }
  __builtin_longjmp(b.scheduler, 1);
}

// Until it is this fiber's turn again.
void pause(State state) {
  Fiber& fiber = block().fibers[block().running];
  fiber.state = state;
  if (__builtin_setjmp(fiber.here) == 0) go_on();
}

void run_fiber() {
  for (;;) {
    (*block().kernel)();
    pause(State::ended);
  }
}

// Gives each fiber that can run a turn, in another order between any two barriers.
void run_fibers() {
  Block& b = block();
  const std::size_t first = b.order() % b.size;
  b.is_backwards = b.order() % 2 == 0;
  b.next = b.is_backwards ? b.size - 1 - first : first;
  b.left = b.size;
  if (__builtin_setjmp(b.scheduler) == 0) go_on();
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
  for (std::size_t warp = 0; warp * warp_size < b.size; ++warp) b.warps[warp].count.fill(0);
  std::size_t i = 0;
  for (unsigned z = 0; z < place.block_size.z; ++z)
    for (unsigned y = 0; y < place.block_size.y; ++y)
      for (unsigned x = 0; x < place.block_size.x; ++x, ++i) {
        b.fibers[i].place = place;
        b.fibers[i].place.index = dim3(x, y, z);
        b.fibers[i].state = State::ready;
      }
  b.shared.clear();
  do {
    run_fibers();
  } while (release());
  b.shared.check();
}

std::size_t count(const dim3& size) {
  return std::size_t{size.x} * size.y * size.z;
}

// What the compiler passes on about an access (-fsanitize=alignment); names are ended by a zero.
struct SourceLocation {
  const char* file;
  std::uint32_t line, column;
};
struct TypeDescriptor {
  std::uint16_t kind, info;
  char name[1];
};
struct TypeMismatch {
  SourceLocation where;
  const TypeDescriptor* type;
  unsigned char log_alignment, kind_of_access;
};

}  // namespace

void defect(const char* what) {
  std::fprintf(stderr, "simulated GPU: %s\n", what);
  std::abort();
}

// Called instead of the sanitizer's library, which would print and continue.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name that GCC and clang call
extern "C" void __ubsan_handle_type_mismatch_v1(TypeMismatch* mismatch, std::uintptr_t address) {
  const auto& [where, type, log_alignment, kind] = *mismatch;
  std::fprintf(stderr, "%s:%u: misaligned access to %s: %#zx is not a multiple of %u\n", where.file,
               where.line, type->name, static_cast<std::size_t>(address), 1U << log_alignment);
  defect("a GPU would answer cudaErrorMisalignedAddress");
}

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

void* dynamic_shared() {
  return block().shared.dynamic.data();
}

void declare_shared(const void* place, std::size_t bytes) {
  Shared& shared = block().shared;
  if (block().running != 0) return;  // the first thread speaks for its block
  shared.declared[place] = bytes;
  if (shared.declared_bytes() + shared.dynamic_bytes <= shared.limit) return;
  std::fprintf(stderr, "declared: %zu bytes, dynamic: %zu, allowed: %zu\n", shared.declared_bytes(),
               shared.dynamic_bytes, shared.limit);
  defect("a GPU would refuse to launch a block with so much shared memory");
}

void enqueue_kernel(const Configuration& c, const void* function, std::function<void()> kernel,
                    const char* name) {
  const bool is_possible = count(c.grid) > 0 && count(c.block) > 0 &&
                           count(c.block) <= most_threads && c.grid.y <= 65535 &&
                           c.grid.z <= 65535 && c.block.z <= 64 && c.grid.x <= 2147483647U;
  if (!is_possible) return set_last_error(cudaErrorInvalidConfiguration);
  const SharedLimits limits = shared_limits(function);
  if (c.shared_bytes > limits.dynamic_bytes) return set_last_error(cudaErrorInvalidValue);
  enqueue(
      c.stream,
      [=, kernel = std::move(kernel)] {
        const Access access;  // by one thread at a time
        block().kernel = &kernel;
        block().shared.dynamic_bytes = c.shared_bytes;
        block().shared.limit = limits.bytes;
        const std::size_t blocks = count(c.grid), first = block().order() % blocks;
        for (std::size_t i = 0; i < blocks; ++i) {
          const auto number = static_cast<unsigned>((first + i) % blocks);
          const dim3 at(number % c.grid.x, number / c.grid.x % c.grid.y,
                        number / c.grid.x / c.grid.y);
          run_block({{}, at, c.block, c.grid});
        }
        if (function != nullptr) note_static_shared(function, block().shared.declared_bytes());
      },
      name);
}

}  // namespace tasuki::simulated
