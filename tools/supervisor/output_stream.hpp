// Output that does not wait for its reader, so that a stopped reader (a pager, a terminal after
// Ctrl-S) does not delay signals and time limits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/supervisor/signals.hpp"

namespace tasuki::supervisor {

class OutputStream {
 public:
  // `file`: a descriptor, which may be a terminal, a pipe, a socket or a file.
  explicit OutputStream(int file);
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  // Writes what the reader takes now, and keeps the rest. Without a reader all of it is lost.
  void write(std::string_view text);
  void flush() { write(""); }
  // Whether so much is kept that the producer should wait.
  bool is_full() const { return kept_.size() >= capacity; }
  // Waits until the reader has taken all, or a signal asks for the end.
  void drain(const Signals& signals);
  // A descriptor that becomes writable when flush() has work; -1 if nothing is kept.
  int awaited() const { return kept_.empty() ? -1 : writer(); }

 private:
  static constexpr std::size_t capacity = 65536;

  int writer() const { return own_ >= 0 ? own_ : file_; }
  std::ptrdiff_t write_some() const;

  int file_;
  int own_ = -1;  // the same stream, non-blocking
  bool is_socket_;
  std::string kept_;
};

// This process's standard error and output.
OutputStream& error_output();
OutputStream& standard_output();

// Whether a descriptor has lost its reader: a pipe or socket whose other end is closed. Never true
// for a file, /dev/null or a terminal.
bool has_lost_reader(int file);
// What poll() should watch to notice this: the descriptor, for POLLERR or POLLHUP; -1 if it cannot
// happen.
int pipe_or_socket(int file);
// Whether a write would not wait for a reader.
bool has_room(int file);

}  // namespace tasuki::supervisor
