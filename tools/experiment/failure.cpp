#include "tools/experiment/failure.hpp"

#include <fmt/core.h>
#include <signal.h>

#include "program/batch_size.hpp"
#include "tools/processes/error_line.hpp"

namespace tasuki::experiment {
namespace {

using processes::is_error_line;
using processes::last_words;

constexpr const char* out_of_memory = "out of memory";
constexpr const char* killed = "killed (out of memory?)";

bool says(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

// Killed by SIGKILL: the program, or a rank that mpirun names.
bool was_killed(const EndedProcess& ended, std::string_view output) {
  return ended.exit_code == 128 + SIGKILL || says(output, "exited on signal 9");
}

}  // namespace

std::string describe_failure(const EndedProcess& ended, double timeout, std::string_view output) {
  if (ended.how == processes::HowEnded::timed_out)
    return fmt::format("not finished after {} s", timeout);
  if (ended.exit_code == 0) return "";
  const std::string words = last_words(output);
  std::string text = fmt::format("exit code {}: {}", ended.exit_code, words);
  if (is_error_line(words) && (says(words, out_of_memory) || says(words, "std::bad_alloc")))
    return fmt::format("{}, {}", out_of_memory, text);
  if (!is_error_line(words) && was_killed(ended, output))
    return fmt::format("{}, {}", killed, text);
  return text;
}

std::string failure_mark(std::string_view failure) {
  if (failure.starts_with(killed)) return killed;
  if (!failure.starts_with(out_of_memory)) return "failed";
  const auto advice = failure.find(program::advice_on_batch);
  if (advice == failure.npos) return out_of_memory;
  const std::string_view batch = failure.substr(advice + program::advice_on_batch.size());
  return fmt::format("{} ({} a rank fits)", out_of_memory,
                     batch.substr(0, batch.find_first_not_of("0123456789")));
}

}  // namespace tasuki::experiment
