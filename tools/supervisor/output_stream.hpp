// Output that does not wait for its reader, so that a reader who has stopped (a pager, a terminal
// after Ctrl-S) does not keep signals and time limits waiting.
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

  // Writes what the reader takes now, and keeps the rest. Without a reader all is lost.
  void write(std::string_view text);
  void flush() { write(""); }
  // Whether so much is kept that whoever produces it should wait.
  bool is_full() const { return kept_.size() >= capacity; }
  // Waits until the reader has taken all, or a signal asks for the end.
  void drain(const Signals& signals);
  // Is ready to be written when flush() has something to do; -1 if nothing is kept.
  int awaited() const { return kept_.empty() ? -1 : writer(); }

 private:
  static constexpr std::size_t capacity = 65536;

  int writer() const { return own_ >= 0 ? own_ : file_; }
  std::ptrdiff_t write_some() const;

  int file_;
  int own_ = -1;  // of the same stream, but does not block
  bool is_socket_;
  std::string kept_;
};

// This process's standard error.
OutputStream& error_output();

// Whether nobody can read any more what is written to a descriptor: a pipe, or a socket, whose
// other end is closed. A file, /dev/null and a terminal are never that.
bool has_lost_reader(int file);
// What poll() is to watch for that: the descriptor, with POLLERR or POLLHUP; -1 if it cannot come.
int pipe_or_socket(int file);

}  // namespace tasuki::supervisor
