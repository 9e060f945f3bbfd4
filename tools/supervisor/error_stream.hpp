// The launcher's standard error, which tasuki-run reads and passes on. (The launcher writes
// standard output directly.)
#pragma once

#include <string>

namespace tasuki::supervisor {

class ErrorStream {
 public:
  // A pseudo terminal of the same size if this process's standard error is a terminal, to keep
  // colours and widths; otherwise, or where pseudo terminals are missing, a pipe.
  ErrorStream();
  ~ErrorStream();
  ErrorStream(const ErrorStream&) = delete;
  ErrorStream& operator=(const ErrorStream&) = delete;

  int reader() const { return reader_; }  // does not block
  int writer() const { return writer_; }  // for the launcher
  void close_writer();                    // once the launcher has it
  // Passes on the terminal's current size.
  void follow_size() const;
  // Reads what is available; false at the end of the stream.
  bool read(std::string& bytes) const;

 private:
  int reader_ = -1, writer_ = -1;
  bool is_terminal_;
};

}  // namespace tasuki::supervisor
