// The launcher's standard error, which tasuki-run reads and passes on. (Its standard output is this
// process's own.)
#pragma once

#include <string>

namespace tasuki::supervisor {

class ErrorStream {
 public:
  // A pseudo terminal of the same size if this process's standard error is a terminal, so that
  // colours and widths stay as they are; else, or where there are none, a pipe.
  ErrorStream();
  ~ErrorStream();
  ErrorStream(const ErrorStream&) = delete;
  ErrorStream& operator=(const ErrorStream&) = delete;

  int reader() const { return reader_; }  // does not block
  int writer() const { return writer_; }  // for the launcher
  void close_writer();                    // when the launcher has it
  // The terminal's present size.
  void follow_size() const;
  // What there is to read; false at the end of the stream.
  bool read(std::string& bytes) const;

 private:
  int reader_ = -1, writer_ = -1;
  bool is_terminal_;
};

}  // namespace tasuki::supervisor
