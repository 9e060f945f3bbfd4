#include "counts.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace tasuki::simulated {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, std::int64_t> of;
};

// Never ended: the thread that does overdue work may count until the process is gone.
Counts& counts() {
  static auto* const instance = new Counts;
  return *instance;
}

struct Writer {
  ~Writer() {
    const char* const path = std::getenv("SIMULATED_CUDA_COUNTS");
    std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return;
    const std::lock_guard lock(counts().mutex);
    for (const auto& [name, count] : counts().of)
      std::fprintf(file, "%s %lld\n", name.c_str(), static_cast<long long>(count));
    std::fclose(file);
  }
};

}  // namespace

void count(const char* name) {
  static const Writer writer;
  const std::lock_guard lock(counts().mutex);
  ++counts().of[name];
}

}  // namespace tasuki::simulated
