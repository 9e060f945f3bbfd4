// Objects that a forked child must not destroy.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace tasuki {

// Holds an object with threads of this process, whose destructor waits for them. A forked child has
// none of these threads and would wait forever: for a thread, for a lock that one held, or in the
// destructor of a condition variable on which one waited. So a child does not destroy the object.
template <class T>
class OwnProcess {
 public:
  template <class... Arguments>
  explicit OwnProcess(Arguments&&... arguments)
      : object_(std::make_unique<T>(std::forward<Arguments>(arguments)...)) {}
  ~OwnProcess() {
    if (!is_here()) static_cast<void>(object_.release());
  }
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  // False in a forked child.
  bool is_here() const { return getpid() == process_; }
  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }

 private:
  std::unique_ptr<T> object_;
  pid_t process_ = getpid();
};

}  // namespace tasuki
