#include "nn/module_memory.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "nn/module.hpp"

namespace tasuki {
namespace {

struct Known {
  std::mutex mutex;
  std::set<const ModuleMemory*, std::less<>> alive;
  std::map<const void*, std::size_t> blocks;  // made by new: where they begin, bytes
};

// Never destroyed: modules with static storage may end after it.
Known& known() {
  static Known& all = *new Known;
  return all;
}

void* noted(void* block, std::size_t size) {
  const std::scoped_lock lock(known().mutex);
  known().blocks[block] = size;
  return block;
}

void forget(const void* block) noexcept {
  const std::scoped_lock lock(known().mutex);
  known().blocks.erase(block);
}

}  // namespace

ModuleMemory::ModuleMemory() {
  const std::scoped_lock lock(known().mutex);
  known().alive.insert(this);
}

ModuleMemory::~ModuleMemory() {
  const std::scoped_lock lock(known().mutex);
  known().alive.erase(this);
}

void* ModuleMemory::operator new(std::size_t size) {
  return noted(::operator new(size), size);
}

void* ModuleMemory::operator new(std::size_t size, std::align_val_t alignment) {
  return noted(::operator new(size, alignment), size);
}

void ModuleMemory::operator delete(void* object) noexcept {
  forget(object);
  ::operator delete(object);
}

void ModuleMemory::operator delete(void* object, std::align_val_t alignment) noexcept {
  forget(object);
  ::operator delete(object, alignment);
}

std::vector<const Module*> ModuleMemory::members_of(const Module& module, std::size_t known_size) {
  const std::scoped_lock lock(known().mutex);
  const auto* whole = static_cast<const std::byte*>(dynamic_cast<const void*>(&module));
  const auto* end = reinterpret_cast<const std::byte*>(&module) + known_size;
  if (const auto block = known().blocks.find(whole); block != known().blocks.end())
    end = std::max(end, whole + block->second, std::less<>());
  std::vector<const Module*> members;
  auto& alive = known().alive;
  for (auto each = alive.lower_bound(reinterpret_cast<const ModuleMemory*>(whole));
       each != alive.end() && std::less<>()(reinterpret_cast<const std::byte*>(*each), end); ++each)
    if (const auto* member = static_cast<const Module*>(*each); member != &module)
      members.push_back(member);
  return members;
}

}  // namespace tasuki
