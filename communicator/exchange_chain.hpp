// ExchangeChain: exchanges of gradients that ranks start in the same order. Behind one that failed,
// none is done, because other ranks may be elsewhere.
#pragma once

#include <atomic>

#include "tasuki/core/error.hpp"

namespace tasuki {

class ExchangeChain {
 public:
  // Thrown in place of exchanges behind one that failed, whose error says why.
  class NotBegun : public Error {
   public:
    NotBegun()
        : Error(ErrorKind::internal, "an exchange of gradients before this one has failed") {}
  };

  // Does a part of an exchange, in any thread.
  template <class Work>
  void run(const Work& work) {
    if (has_failed_) throw NotBegun();
    try {
      work();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
  }

 private:
  std::atomic<bool> has_failed_ = false;
};

}  // namespace tasuki
