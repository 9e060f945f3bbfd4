// ExchangeChain: exchanges of gradients that all ranks start in the same order. After one has
// failed, later ones are not carried out, because other ranks may be in another exchange.
#pragma once

#include <atomic>

#include "core/error.hpp"

namespace tasuki {

class ExchangeChain {
 public:
  // Thrown by each exchange after the one that failed; the error of that one says why.
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
