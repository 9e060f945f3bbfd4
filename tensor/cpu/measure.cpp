#include "tensor/cpu/measure.hpp"

#include <unordered_map>

namespace tasuki {
namespace {

struct Hash {
  std::size_t operator()(const OperationKey& key) const { return key.hash(); }
};
thread_local std::unordered_map<OperationKey, bool, Hash> comparisons;

}  // namespace

bool* find_comparison(const OperationKey& key) {
  const auto found = comparisons.find(key);
  return found == comparisons.end() ? nullptr : &found->second;
}

void keep_comparison(const OperationKey& key, bool first_is_faster) {
  comparisons.emplace(key, first_is_faster);
}

}  // namespace tasuki
