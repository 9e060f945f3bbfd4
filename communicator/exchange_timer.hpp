// ExchangeTimer: the time of one exchange of gradients, added to a sum and shown in a trace.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/trace.hpp"

namespace tasuki {

// RAII: from its construction to its destruction, in whatever thread; exchanges of a communicator
// follow each other. `total`, in seconds, outlives it. `first` and `bytes` say what is exchanged.
class ExchangeTimer {
 public:
  ExchangeTimer(std::atomic<double>& total, std::int64_t first, std::int64_t bytes)
      : total_(total), first_(first), bytes_(bytes) {}
  ~ExchangeTimer() {
    const double now = trace_clock();
    total_ = total_ + (now - begin_);
    trace({.name = "sum of a range",
           .row = TraceRow::exchange,
           .begin = begin_,
           .end = now,
           .number = first_,
           .bytes = bytes_});
  }
  ExchangeTimer(const ExchangeTimer&) = delete;
  ExchangeTimer& operator=(const ExchangeTimer&) = delete;

 private:
  std::atomic<double>& total_;
  std::int64_t first_, bytes_;
  double begin_ = trace_clock();
};

}  // namespace tasuki
