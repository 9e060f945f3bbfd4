#include "apps/seq2seq/dates.hpp"

#include <fmt/core.h>

#include <array>
#include <chrono>

#include "apps/seq2seq/pairs.hpp"
#include "core/philox.hpp"

namespace tasuki::seq2seq {
namespace {

namespace chrono = std::chrono;

constexpr std::array months = {"january",   "february", "march",    "april",
                               "may",       "june",     "july",     "august",
                               "september", "october",  "november", "december"};
constexpr std::array weekdays = {"sunday",   "monday", "tuesday", "wednesday",
                                 "thursday", "friday", "saturday"};

bool is_held_out(chrono::sys_days date) {
  const std::array<std::uint64_t, 1> day{
      static_cast<std::uint64_t>(date.time_since_epoch().count())};
  return mix(day) % 10 == 0;
}

const char* ordinal(unsigned day) {
  if (day / 10 == 1) return "th";
  return day % 10 == 1 ? "st" : day % 10 == 2 ? "nd" : day % 10 == 3 ? "rd" : "th";
}

std::string written(chrono::sys_days date, std::uint64_t way) {
  const chrono::year_month_day ymd(date);
  const int year = static_cast<int>(ymd.year());
  const unsigned month = static_cast<unsigned>(ymd.month()), day = static_cast<unsigned>(ymd.day());
  const std::string name = months.at(month - 1), brief = name.substr(0, 3);
  const std::string weekday = weekdays.at(chrono::weekday(date).c_encoding());
  switch (way) {
    case 0:
      return fmt::format("{} {} {}", day, name, year);
    case 1:
      return fmt::format("{} {}, {}", name, day, year);
    case 2:
      return fmt::format("{} {} {}", day, brief, year);
    case 3:
      return fmt::format("{} {} {}", brief, day, year);
    case 4:
      return fmt::format("{:02}.{:02}.{}", day, month, year);
    case 5:
      return fmt::format("{}/{}/{}", year, month, day);
    case 6:
      return fmt::format("{}, {} {}, {}", weekday, name, day, year);
    case 7:
      return fmt::format("{}{} of {} {}", day, ordinal(day), name, year);
    default:
      return fmt::format("{} {:02}-{}-{}", weekday.substr(0, 3), day, brief, year);
  }
}

std::vector<std::string> letters(std::string_view text) {
  std::vector<std::string> made;
  for (const char letter : text) made.emplace_back(1, letter);
  return made;
}

}  // namespace

std::pair<std::string, std::string> date_example(std::uint64_t seed, std::int64_t number,
                                                 bool is_test) {
  using namespace std::chrono_literals;
  const chrono::sys_days first = 1950y / chrono::January / 1, end = 2050y / chrono::January / 1;
  const std::array<std::uint64_t, 3> purpose{0xDA7E, static_cast<std::uint64_t>(number), is_test};
  RandomStream stream(seed, mix(purpose));
  chrono::sys_days date;
  do {
    date = first + chrono::days(stream.below(static_cast<std::uint64_t>((end - first).count())));
  } while (is_held_out(date) != is_test);
  const chrono::year_month_day ymd(date);
  return {written(date, stream.below(9)),
          fmt::format("{}-{:02}-{:02}", static_cast<int>(ymd.year()),
                      static_cast<unsigned>(ymd.month()), static_cast<unsigned>(ymd.day()))};
}

const Vocabulary& date_letters() {
  static const Vocabulary vocabulary(letters(" ,./-0123456789abcdefghijklmnopqrstuvwxyz"));
  return vocabulary;
}

const Vocabulary& iso_letters() {
  static const Vocabulary vocabulary(letters("-0123456789"));
  return vocabulary;
}

std::shared_ptr<const Dataset> make_dates_dataset(std::uint64_t seed, std::int64_t count,
                                                  bool is_test) {
  NumberPairs pairs;
  for (std::int64_t number = 0; number < count; ++number) {
    const auto [source, target] = date_example(seed, number, is_test);
    pairs.add(date_letters().numbers(letters(source)), iso_letters().numbers(letters(target)));
  }
  return make_pairs_dataset(std::move(pairs), date_letters().size(), iso_letters().size());
}

}  // namespace tasuki::seq2seq
