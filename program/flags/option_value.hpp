// Values of options: parsed from text with checks, and formatted as text; and the name that a user
// probably meant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki::program {

// Allowed values, both ends included.
struct IntegerRange {
  std::int64_t least, most;
};
struct NumberRange {
  double least, most;
};

// The functions below throw std::invalid_argument with what was expected ("an integer from 1 to
// 9"). The caller adds where the value was found, and the value.
std::int64_t parse_integer(std::string_view text, IntegerRange range);
double parse_number(std::string_view text, NumberRange range);
// Ascending numbers separated by commas. `absent` is the word for an empty list.
std::vector<double> parse_numbers(std::string_view text, NumberRange range,
                                  std::string_view absent);
// A time in seconds, above 0: numbers with units (90s, 1.5h, 1h30m; d, h, m or min, s), or hours,
// minutes and seconds (1:30:00). duration_text() writes a text that reads back as the same time.
double parse_duration(std::string_view text);
std::string duration_text(double seconds);
// Bytes, 1 to 1e18: a number with a unit (500MB, 16GB, 1.5TiB; kB, MB, GB, TB are powers of 1000,
// KiB, MiB, GiB, TiB powers of 1024; B). bytes_text() writes a text that reads back as the same
// bytes.
double parse_bytes(std::string_view text);
std::string bytes_text(double bytes);
bool parse_switch(std::string_view text);  // true, false, yes, no, on, off, 1, 0
std::string parse_choice(std::string_view text, std::span<const std::string> choices);

// Number of single-character insertions, deletions, substitutions and swaps of neighbours that turn
// `a` into `b` (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b);

// The candidate that `name` probably stands for: one that `name` abbreviates, else the closest
// within a third of its length (at least 2 edits, but fewer than its length). For an abbreviation
// with typing errors ("bach" for "batchsize") the distance is its errors plus 1. Empty if no
// candidate is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// The shortest text that reads back as the same number.
std::string to_text(double value);

// A value of a flag with a fixed set of choices, and its name.
template <class T>
struct Choice {
  const char* name;
  T value;
};

// `value` is one of `choices`.
template <class T>
const char* name_of(const std::vector<Choice<T>>& choices, const T& value) {
  return std::ranges::find(choices, value, &Choice<T>::value)->name;
}

}  // namespace tasuki::program
