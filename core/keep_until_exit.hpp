// Objects that live until the process ends.
#pragma once

#include <deque>
#include <mutex>
#include <utility>

namespace tasuki {

// Makes a T that is never destroyed but stays reachable, so that leak checkers do not report it.
// Thread-safe.
template <class T, class... Arguments>
T& keep_until_exit(Arguments&&... arguments) {
  static std::mutex mutex;
  static auto* const all = new std::deque<T>;
  const std::lock_guard lock(mutex);
  return all->emplace_back(std::forward<Arguments>(arguments)...);
}

}  // namespace tasuki
