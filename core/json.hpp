// JSON in files from any source: texts may have any bytes, and reading has limits.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tasuki {

// A value as JSON, on one line or with `indent` spaces for each level. Texts and keys may be any
// bytes (to_utf8()); numbers that are not finite become null. Nothing in it controls a terminal.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// Limits of what may take much more memory, or stack, than the text.
struct JsonLimits {
  int levels = 100;
  std::int64_t values = 1 << 20;
};
// For files that grow with a run: some 500,000 entries of eight values.
inline constexpr JsonLimits limits_of_logs{.values = 1 << 22};
// The value of a JSON text, with texts and keys as they were passed to json_text(). Anything else,
// or anything beyond the limits, is an error of kind data that begins with `place`.
nlohmann::json parse_json(std::string_view text, std::string_view place, JsonLimits limits = {});
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view place,
                                          JsonLimits limits = {});

// The integer in `value`; nothing if there is none, or it is not from `least` to `most`.
std::optional<std::int64_t> integer_in(const nlohmann::json& value, std::int64_t least = 0,
                                       std::int64_t most = INT64_MAX);

}  // namespace tasuki
