#include "program/flags/option_value.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "core/printable.hpp"
#include "core/text_parts.hpp"

namespace tasuki::program {
namespace {

// Reads the whole text, which may begin with a plus sign; false if it is no number.
template <class Number>
bool read_whole(std::string_view text, Number& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto number = number_in<Number>(text);
  if (number) value = *number;
  return number.has_value();
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
  for (const std::string& part : text_parts(text, ',')) {
    double value = 0;
    if (!read_whole(part, value) || !(value >= range.least && value <= range.most) ||
        (!values.empty() && value <= values.back()))
      throw std::invalid_argument(
          fmt::format("ascending numbers from {} to {}, separated by commas, or '{}'", range.least,
                      range.most, absent));
    values.push_back(value);
  }
  return values;
}

namespace {

struct TimeUnit {
  std::string_view name;
  double seconds;
};
constexpr double minute = 60, hour = 60 * minute, day = 24 * hour;
// Those that follow each other in a text become smaller.
constexpr TimeUnit time_units[] = {
    {"d", day}, {"h", hour}, {"min", minute}, {"m", minute}, {"s", 1}};

// "1:30:00"; negative if it is none.
double seconds_of_clock(std::string_view text) {
  const std::size_t first = text.find(':'), second = text.rfind(':');
  std::uint64_t hours = 0;
  std::uint32_t minutes = 0, seconds = 0;
  const auto is_sixtieth = [](std::string_view part, std::uint32_t& value) {
    return part.size() == 2 && read_whole(part, value) && value < 60;
  };
  if (first == second || !read_whole(text.substr(0, first), hours) ||
      !is_sixtieth(text.substr(first + 1, second - first - 1), minutes) ||
      !is_sixtieth(text.substr(second + 1), seconds))
    return -1;
  return static_cast<double>(hours) * hour + minutes * minute + seconds;
}

// "1h30m"; negative if it is none.
double seconds_of_units(std::string_view text) {
  double sum = 0, last_unit = std::numeric_limits<double>::infinity();
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t end = std::min(text.find_first_of("0123456789.", digits), text.size());
    const auto unit =
        std::ranges::find(time_units, text.substr(digits, end - digits), &TimeUnit::name);
    double number = 0;
    if (unit == std::end(time_units) || unit->seconds >= last_unit ||
        !read_whole(text.substr(0, digits), number))
      return -1;
    sum += number * unit->seconds;
    last_unit = unit->seconds;
    text.remove_prefix(end);
  }
  return sum;
}

}  // namespace

double parse_duration(std::string_view text) {
  const double seconds =
      text.find(':') != std::string_view::npos ? seconds_of_clock(text) : seconds_of_units(text);
  constexpr double most = 1e9;
  if (!(seconds > 0 && seconds <= most))
    throw std::invalid_argument("a time such as 90s, 30m, 12h or 1:30:00");
  return seconds;
}

std::string duration_text(double seconds) {
  for (const TimeUnit& unit : {TimeUnit{"h", hour}, {"m", minute}})
    if (std::fmod(seconds, unit.seconds) == 0)
      return fmt::format("{}{}", seconds / unit.seconds, unit.name);
  return fmt::format("{}s", seconds);
}

namespace {

struct SizeUnit {
  std::string_view name;
  double bytes;
};
// The largest first; whole bytes are a multiple of one of the first five.
constexpr SizeUnit size_units[] = {{"TB", 1e12},    {"GB", 1e9},     {"MB", 1e6},
                                   {"kB", 1e3},     {"B", 1},        {"TiB", 0x1p40},
                                   {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};

}  // namespace

double parse_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto unit = std::ranges::find(size_units, text.substr(digits), &SizeUnit::name);
  double number = 0;
  if (unit != std::end(size_units) && read_whole(text.substr(0, digits), number))
    if (const double bytes = std::round(number * unit->bytes); bytes >= 1 && bytes <= 1e18)
      return bytes;
  throw std::invalid_argument("bytes with a unit, such as 500MB, 16GB or 1.5TiB");
}

std::string bytes_text(double bytes) {
  const auto unit = std::ranges::find_if(
      size_units, [bytes](const SizeUnit& each) { return std::fmod(bytes, each.bytes) == 0; });
  return fmt::format("{:.0f}{}", bytes / unit->bytes, unit->name);
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
  throw std::invalid_argument(fmt::format("one of {}{}", join(choices, ", "),
                                          meant.empty() ? "" : " (did you mean " + meant + "?)"));
}

namespace {

// The distances of `a` from all prefixes of `b`, the empty one first.
std::vector<int> distances_from_prefixes(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table of distances between prefixes.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substitution, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  return distances_from_prefixes(a, b).back();
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t shortest_abbreviation = 3;
  std::string best;
  const int length = static_cast<int>(name.size());
  int best_distance = std::min(std::max(2, length / 3) + 1, length);  // something must match
  for (const std::string& candidate : candidates) {
    const std::vector<int> distances = distances_from_prefixes(name, candidate);
    int distance = distances.back();
    if (name.size() >= shortest_abbreviation) {
      const int slips = *std::ranges::min_element(distances);
      distance = slips == 0 ? 0 : std::min(distance, slips + 1);
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string to_text(double value) {
  return fmt::format("{}", value);
}

}  // namespace tasuki::program
