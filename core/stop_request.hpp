// That this process was asked to stop.
//
// A training that runs takes the request at the end of a step, in which all ranks agree
// (Optimizer::asked_to_stop), saves a snapshot and leaves Trainer::run() with Stopped. Signals ask
// (job/stop_signals.hpp), or a program itself.
#pragma once

#include <string>
#include <string_view>

#include "tasuki/core/error.hpp"

namespace tasuki {

// A training was stopped and saved; all ranks throw it. run_job prints the message on rank 0 and
// returns the exit code.
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& message)
      : Error(exit_kind, message, ErrorScope::every_rank) {}
  static constexpr ErrorKind exit_kind{79};
};

// Async-signal-safe, as are the questions.
void request_stop() noexcept;
bool stop_requested() noexcept;
// Whether a training runs that will take the request.
bool can_stop() noexcept;
// Whether one has run, or runs, in this process.
bool training_has_begun() noexcept;

// A training runs until the end of the scope, which forgets a request and the last words.
class StoppableScope {
 public:
  StoppableScope();
  ~StoppableScope();
  StoppableScope(const StoppableScope&) = delete;
  StoppableScope& operator=(const StoppableScope&) = delete;
};

// What this process says on standard error about its training when a signal ends it at once, as the
// rest of a line that begins with how it ended ("; there is no snapshot yet"). Empty, as at first:
// there is no such line.
void set_last_words(std::string_view words);
// Sets those of a program that is about to train.
void announce_training();
// Prints the line ("interrupted" and the words), once, in place of a progress bar.
// Async-signal-safe.
void say_last_words(std::string_view end) noexcept;
// Has nothing printed any more, because an error says what happened.
void drop_last_words() noexcept;

}  // namespace tasuki
