#include "tasuki/core/stop_request.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "tasuki/core/terminal.hpp"

namespace tasuki {
namespace {

std::atomic<bool> is_requested = false;
std::atomic<int> trainings = 0;

// A line is written into the one that is not shown, so that a signal never meets half of it.
struct Words {
  std::array<char, 4096> text;
  std::size_t size = 0;
};
std::array<Words, 2> words;
std::atomic<std::size_t> shown = 0;
std::atomic<bool> are_said = false;

}  // namespace

void request_stop() noexcept {
  is_requested = true;
}

bool stop_requested() noexcept {
  return is_requested;
}

bool can_stop() noexcept {
  return trainings > 0;
}

StoppableScope::StoppableScope() {
  ++trainings;
}

StoppableScope::~StoppableScope() {
  if (--trainings == 0) is_requested = false;
}

void set_last_words(std::string_view line) {
  Words& next = words[1 - shown];
  next.size = std::min(line.size(), next.text.size() - 1);
  std::copy_n(line.begin(), next.size, next.text.begin());
  if (next.size > 0) next.text[next.size++] = '\n';
  shown = 1 - shown;
}

void say_last_words() noexcept {
  if (are_said.exchange(true)) return;
  end_bar();
  const Words& line = words[shown];
  if (line.size > 0 && write(STDERR_FILENO, line.text.data(), line.size) < 0) return;
}

}  // namespace tasuki
