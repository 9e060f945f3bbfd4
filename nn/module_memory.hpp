// ModuleMemory: which modules are members of an object, registered with it or not.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace tasuki {

class Module;

// The base of Module. C++ tells a base class neither its object's size nor its members; this keeps
// the addresses of all modules that are alive and the sizes of those that `new` made.
class ModuleMemory {
 public:
  // Modules in the memory of `module`'s object, by address. `known_size` is the object's size as
  // far as the caller knows its type; an object made by `new` may be larger. Modules that the
  // object holds by pointer lie elsewhere and are not included.
  static std::vector<const Module*> members_of(const Module& module, std::size_t known_size);

  static void* operator new(std::size_t size);
  static void* operator new(std::size_t size, std::align_val_t alignment);
  static void* operator new(std::size_t, void* place) noexcept { return place; }
  static void operator delete(void* object) noexcept;
  static void operator delete(void* object, std::align_val_t alignment) noexcept;

 protected:
  ModuleMemory();
  ~ModuleMemory();
  ModuleMemory(const ModuleMemory&) = delete;
  ModuleMemory& operator=(const ModuleMemory&) = delete;
};

}  // namespace tasuki
