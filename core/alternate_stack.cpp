#include "core/alternate_stack.hpp"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>

namespace tasuki {
namespace {

class AlternateStack {
 public:
  AlternateStack() {
    stack_t present{};
    const bool is_needed = sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE);
    if (!is_needed) return;
    // The size of what the kernel writes depends on the processor's registers: 3 KiB with AVX-512,
    // 11 KiB with AMX. The rest is for the handler; a profiler that walks the stack uses tens of
    // KiB.
    constexpr std::size_t for_handlers = 64 << 10;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t frame = std::max<std::size_t>(getauxval(AT_MINSIGSTKSZ), MINSIGSTKSZ);
    const std::size_t stack = (for_handlers + frame + page - 1) / page * page;
    // The lowest page stays inaccessible: overflow is a segmentation fault.
    bytes_ = page + stack;
    void* const block = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (block == MAP_FAILED) return;
    block_ = static_cast<char*>(block);
    mprotect(block_, page, PROT_NONE);
    stack_t own{};
    own.ss_sp = block_ + page;
    own.ss_size = stack;
    sigaltstack(&own, nullptr);
  }
  ~AlternateStack() {
    if (block_ == nullptr) return;
    stack_t present{}, none{};
    none.ss_flags = SS_DISABLE;
    const bool is_own = sigaltstack(nullptr, &present) == 0 && present.ss_sp >= block_ &&
                        present.ss_sp < block_ + bytes_;
    if (is_own) sigaltstack(&none, nullptr);
    munmap(block_, bytes_);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  char* block_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

void use_alternate_stack() {
  thread_local const AlternateStack stack;
}

void use_alternate_stacks_in_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN || (action.sa_flags & SA_ONSTACK) != 0)
      continue;
    action.sa_flags |= SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace tasuki
