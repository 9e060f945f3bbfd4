// Output of the launcher that tasuki-run reads and passes on: its standard error, and Hydra's
// standard output. (Open MPI's mpirun writes standard output directly.)
#pragma once

#include <string>

namespace tasuki::supervisor {

class LauncherStream {
 public:
  // For what is passed on to `file`, a descriptor of this process. A pseudo terminal of the same
  // size if that is a terminal, to keep colours and widths; otherwise, or where pseudo terminals
  // are missing, a pipe.
  explicit LauncherStream(int file);
  ~LauncherStream();
  LauncherStream(const LauncherStream&) = delete;
  LauncherStream& operator=(const LauncherStream&) = delete;

  int reader() const { return reader_; }  // does not block
  int writer() const { return writer_; }  // for the launcher
  void close_writer();                    // once the launcher has it
  // Passes on the terminal's current size.
  void follow_size() const;
  // Reads what is available; false at the end of the stream.
  bool read(std::string& bytes) const;

 private:
  int file_;
  int reader_ = -1, writer_ = -1;
  bool is_terminal_;
};

}  // namespace tasuki::supervisor
