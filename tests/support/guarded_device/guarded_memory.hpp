// Memory that may be touched only while a scope says so: any other access ends the program.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace tasuki::testing {

class GuardedMemory {
 public:
  static GuardedMemory& instance();

  void* acquire(std::size_t bytes);
  void release(void* block, std::size_t bytes);

  // While one of these lives, the memory can be read and written.
  class Access {
   public:
    Access() { instance().open(); }
    ~Access() { instance().close(); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

 private:
  GuardedMemory();
  void open();
  void close();

  std::recursive_mutex mutex_;
  std::byte* begin_;
  std::size_t used_ = 0;
  int accesses_ = 0;
  std::multimap<std::size_t, void*> free_;  // by rounded size
};

}  // namespace tasuki::testing
