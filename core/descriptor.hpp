// Descriptor: an open file, which is closed with the object.
#pragma once

#include <unistd.h>

#include <utility>

namespace tasuki {

class Descriptor {
 public:
  // Takes ownership of what open(2) returned; negative: none.
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }
  // Releases ownership: the caller closes the file.
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace tasuki
