// A request to stop this process.
//
// A running training takes the request at the end of a step, when all ranks have agreed, saves a
// snapshot, and Trainer::run() throws Stopped. Signals (job/stop_signals.hpp) or the program make
// the request.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace tasuki {

// Thrown on all ranks when a training was stopped and saved. run_job prints the message on rank 0
// and returns the exit code.
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& message)
      : Error(ErrorKind::stopped, message, ErrorScope::every_rank) {}
};

// Async-signal-safe, like the functions below.
void request_stop() noexcept;
bool stop_requested() noexcept;
// Whether a training runs that will take the request.
bool can_stop() noexcept;
// Whether a training runs or has run in this process.
bool training_has_begun() noexcept;

// RAII: a training runs until the end of the scope, which clears a request and the last words.
class StoppableScope {
 public:
  StoppableScope();
  ~StoppableScope();
  StoppableScope(const StoppableScope&) = delete;
  StoppableScope& operator=(const StoppableScope&) = delete;
};

// What this process prints on standard error about its training if a signal ends it at once: the
// rest of a line that begins with how it ended ("; there is no snapshot yet"). Empty, the initial
// value, prints no line.
void set_last_words(std::string_view words);
// Sets the last words of a program that is about to train.
void announce_training();
// Prints the line ("interrupted" and the words), once, over a progress bar. Async-signal-safe.
void say_last_words(std::string_view end) noexcept;
// Suppresses the line, when an error, or another process, says what happened.
void drop_last_words() noexcept;

}  // namespace tasuki
