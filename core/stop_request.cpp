#include "core/stop_request.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "core/printable.hpp"
#include "core/terminal.hpp"

namespace tasuki {
namespace {

std::atomic<bool> is_requested = false;
std::atomic<int> trainings = 0;
std::atomic<bool> has_begun = false;

// Words are written into the unused buffer, so that a signal never finds them incomplete.
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

bool training_has_begun() noexcept {
  return has_begun;
}

StoppableScope::StoppableScope() {
  ++trainings;
  has_begun = true;
}

StoppableScope::~StoppableScope() {
  if (--trainings > 0) return;
  is_requested = false;
  set_last_words("");
}

void set_last_words(std::string_view given) {
  const std::string text = printable(given);
  Words& next = words[1 - shown];
  next.size = std::min(text.size(), next.text.size());
  std::copy_n(text.begin(), next.size, next.text.begin());
  shown = 1 - shown;
}

void announce_training() {
  set_last_words(" before the training began; nothing was saved");
}

void say_last_words(std::string_view end) noexcept {
  if (are_said.exchange(true)) return;
  end_bar();
  const Words& said = words[shown];
  if (said.size == 0) return;
  // In one write, so that the lines of several processes do not mix.
  static std::array<char, 64 + sizeof(said.text)> line;
  const std::size_t begin = std::min<std::size_t>(end.size(), 63);
  std::copy_n(end.begin(), begin, line.begin());
  std::copy_n(said.text.begin(), said.size, line.begin() + begin);
  line[begin + said.size] = '\n';
  if (write(STDERR_FILENO, line.data(), begin + said.size + 1) < 0) return;
}

void drop_last_words() noexcept {
  are_said = true;
}

}  // namespace tasuki
