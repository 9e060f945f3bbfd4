// What was printed, into a file or on a terminal.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tasuki::testing {

// All up to where the file is written now.
inline std::string contents_of(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  return text;
}

// One that can move its cursor.
class PseudoTerminal {
 public:
  PseudoTerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    setenv("TERM", "xterm", 1);
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    out = std::fopen(ptsname(master_), "w");
    EXPECT_NE(out, nullptr);
  }
  ~PseudoTerminal() {
    std::fclose(out);
    close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  void resize(int columns) const {
    const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    EXPECT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
  }
  // What was written arrives in pieces; nothing more for a while means that this was all.
  std::string read_all() const {
    std::string text;
    for (pollfd waiting{master_, POLLIN, 0}; ::poll(&waiting, 1, 500) > 0;) {
      std::array<char, 4096> piece{};
      const ssize_t bytes = ::read(master_, piece.data(), piece.size());
      if (bytes <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(bytes));
    }
    return text;
  }

  std::FILE* out = nullptr;

 private:
  int master_;
};

}  // namespace tasuki::testing
