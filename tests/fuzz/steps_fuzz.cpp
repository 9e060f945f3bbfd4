// The file of --log-steps, as a resumed run finds it: what is kept is the beginning of whole lines,
// which is accepted again and kept as it is.
#include "core/line_reader.hpp"
#include "fuzz.hpp"
#include "training/step_table.hpp"

using namespace tasuki;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto format = input.number() % 2 == 0 ? StepFormat::csv : StepFormat::json_lines;
  const std::int64_t iteration = input.number<std::uint16_t>();
  const std::string_view text = fuzz::as_text(input.rest());
  const auto steps_in = [&](std::string_view part) {
    LineReader lines(part);
    return steps_up_to(iteration, lines, format, "input");
  };
  KeptSteps kept;
  if (!fuzz::accepts([&] { kept = steps_in(text); })) return 0;
  fuzz::require(kept.bytes >= 0 && kept.bytes <= std::ssize(text), "more is kept than there is");
  const std::string_view first = text.substr(0, static_cast<std::size_t>(kept.bytes));
  fuzz::require(first.empty() || first.back() == '\n', "part of a line is kept");
  const KeptSteps again = steps_in(first);
  fuzz::require(again.bytes == kept.bytes && again.columns == kept.columns,
                "what is kept changes when it is read again");
  return 0;
}
