// JSON, whoever wrote it, and texts that need not be UTF-8. What is accepted is the same after it
// was written and read; what is written is UTF-8 without characters that control terminals.
#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"
#include "fuzz.hpp"

using namespace tasuki;

namespace {

void check_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    fuzz::require(length > 0, "a text is no UTF-8");
    text.remove_prefix(length);
  }
}

void check_text(std::string_view bytes) {
  const std::string text = to_utf8(bytes);
  check_utf8(text);
  fuzz::require(from_utf8(text) == bytes, "a text changes when it is written");
  fuzz::require(text_of(characters_of(text)) == text, "characters are others than the text's");
  const std::string shown = printable(bytes);
  fuzz::require(printable(shown) == shown, "a printable text is not printable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  const std::string_view text = fuzz::as_text(input.rest());
  if (mode % 2 == 1) {
    check_text(text);
    return 0;
  }
  nlohmann::ordered_json value;
  if (!fuzz::accepts([&] { value = parse_ordered_json(text, "input"); })) return 0;
  const std::string written = json_text(value);
  check_utf8(written);
  fuzz::require(printable(written) == written, "JSON controls a terminal");
  fuzz::require(json_text(parse_ordered_json(written, "written")) == written,
                "a value changes when it is written");
  return 0;
}
