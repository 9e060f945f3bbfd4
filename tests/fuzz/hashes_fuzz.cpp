// The file of --hash-every: a line that is accepted is written and read again as it is, and what a
// resumed run keeps is the beginning of whole lines, which is accepted again and kept as it is.
#include "core/line_reader.hpp"
#include "fuzz.hpp"
#include "training/step_hashes.hpp"

using namespace tasuki;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool is_line = input.number() % 2 == 0, is_over = input.number() % 2 == 0;
  const std::int64_t iteration = input.number<std::uint16_t>();
  const std::string_view text = fuzz::as_text(input.rest());
  if (is_line) {
    StepHashes step;
    if (!fuzz::accepts([&] { step = StepHashes::parse(text, "input"); })) return 0;
    const std::string line = step.line();
    fuzz::require(StepHashes::parse(line, "input").line() == line, "a line changes");
    return 0;
  }
  const auto kept_of = [&](std::string_view part) {
    LineReader lines(part);
    return hashes_up_to(iteration, is_over, lines, "input");
  };
  KeptHashes kept;
  if (!fuzz::accepts([&] { kept = kept_of(text); })) return 0;
  fuzz::require(kept.bytes >= 0 && kept.bytes <= std::ssize(text), "more is kept than there is");
  const std::string_view first = text.substr(0, static_cast<std::size_t>(kept.bytes));
  fuzz::require(first.empty() || first.back() == '\n', "part of a line is kept");
  fuzz::require(kept_of(first).bytes == kept.bytes, "what is kept changes when it is read again");
  return 0;
}
