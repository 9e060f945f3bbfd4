#include "tasuki/program/flags/option_value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "tasuki/program/flags/nearest.hpp"

namespace tasuki::program {
namespace {

// Reads the whole text as a number; false if it is none.
template <class T>
bool read_whole(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

std::string describe(IntegerRange range) {
  if (range.most == std::numeric_limits<std::int64_t>::max())
    return fmt::format("an integer of at least {}", range.least);
  return fmt::format("an integer from {} to {}", range.least, range.most);
}

std::string describe(NumberRange range) {
  return fmt::format("a number from {} to {}", range.least, range.most);
}

}  // namespace

std::int64_t parse_integer(std::string_view text, IntegerRange range) {
  std::int64_t value = 0;
  if (!read_whole(text, value) || value < range.least || value > range.most)
    throw std::invalid_argument(describe(range));
  return value;
}

double parse_number(std::string_view text, NumberRange range) {
  double value = 0;
  // Written so that NaN is refused.
  if (!read_whole(text, value) || !(value >= range.least && value <= range.most))
    throw std::invalid_argument(describe(range));
  return value;
}

std::vector<double> parse_numbers(std::string_view text, NumberRange range,
                                  std::string_view absent) {
  std::vector<double> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    double value = 0;
    if (!read_whole(text.substr(begin, end - begin), value) ||
        !(value >= range.least && value <= range.most) ||
        (!values.empty() && value <= values.back()))
      throw std::invalid_argument(
          fmt::format("ascending numbers from {} to {}, separated by commas, or '{}'", range.least,
                      range.most, absent));
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

bool parse_switch(std::string_view text) {
  for (const char* word : {"true", "yes", "on", "1"})
    if (text == word) return true;
  for (const char* word : {"false", "no", "off", "0"})
    if (text == word) return false;
  throw std::invalid_argument("true or false");
}

std::string parse_choice(std::string_view text, std::span<const std::string> choices) {
  for (const std::string& choice : choices)
    if (text == choice) return choice;
  const std::string meant = nearest(text, choices);
  throw std::invalid_argument(fmt::format("one of {}{}", fmt::join(choices, ", "),
                                          meant.empty() ? "" : " (did you mean " + meant + "?)"));
}

std::string to_text(double value) {
  return fmt::format("{}", value);
}

}  // namespace tasuki::program
