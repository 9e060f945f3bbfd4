#include "training/step_times.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "communicator/bytes.hpp"
#include "core/error.hpp"
#include "tensor/step_clock.hpp"

namespace tasuki {
namespace {

struct Row {
  std::string name;
  StepTimes times;
};

std::string text_of(const Row& row, std::size_t width) {
  const StepTimes& times = row.times;
  std::string text = fmt::format("{:>{}}", row.name, width);
  const auto steps = static_cast<double>(times.steps);
  for (const double seconds :
       {times.input, times.forward, times.backward, times.exchange, times.update})
    text += fmt::format(" {:>8.2f} {:>3.0f}%", 1e3 * seconds / steps,
                        100 * seconds / std::max(times.total(), 1e-12));
  return text + '\n';
}

// The slowest device: it waits least, because the others wait for it.
bool is_slower(const Row& a, const Row& b) {
  return a.times.exchange / static_cast<double>(a.times.steps) <
         b.times.exchange / static_cast<double>(b.times.steps);
}

std::string exchange_line(const std::vector<Row>& rows, const std::string& name_of_row) {
  if (rows.size() < 2) return "";
  double exchange = 0, transfer = 0, exposed = 0, total = 0;
  for (const Row& row : rows) {
    exchange += row.times.exchange;
    transfer += row.times.transfer;
    exposed += row.times.exposed;
    total += row.times.total();
  }
  std::string text =
      fmt::format("the exchange takes {:.0f} % of a step", 100 * exchange / std::max(total, 1e-12));
  if (transfer > 0)
    text += fmt::format("; {:.0f} % of the transfer is hidden behind the computation",
                        100 * std::max(transfer - exposed, 0.0) / transfer);
  return text + fmt::format("; the slowest {} is {}\n", name_of_row,
                            std::ranges::min_element(rows, is_slower)->name);
}

}  // namespace

std::vector<RankTimes> gather_step_times(const RankTimes& own, Communicator* communicator) {
  if (communicator == nullptr) return {own};
  std::vector<RankTimes> all;
  for (const Bytes& bytes : allgather_bytes(*communicator, std::as_bytes(std::span(own))))
    all.push_back(decode_step_times(bytes));
  return all;
}

RankTimes decode_step_times(std::span<const std::byte> bytes) {
  RankTimes times(bytes.size() / sizeof(StepTimes));
  if (!times.empty()) std::memcpy(times.data(), bytes.data(), times.size() * sizeof(StepTimes));
  if (bytes.size() % sizeof(StepTimes) != 0)
    fail(ErrorKind::data, "times of steps: expected numbers of steps and seconds, found {} bytes",
         bytes.size());
  for (const StepTimes& each : times) {
    if (each.steps < 0)
      fail(ErrorKind::data, "times of steps: expected a number of steps from 0, found {}",
           each.steps);
    for (const double seconds : {each.input, each.forward, each.backward, each.exchange,
                                 each.update, each.transfer, each.exposed})
      if (!(std::isfinite(seconds) && seconds >= 0))
        fail(ErrorKind::data, "times of steps: expected seconds from 0, found {}", seconds);
  }
  return times;
}

std::string step_time_table(const std::vector<RankTimes>& ranks) {
  constexpr std::ptrdiff_t most_rows_shown = 64;
  const bool has_workers =
      std::ranges::any_of(ranks, [](const RankTimes& rank) { return rank.size() > 1; });
  std::vector<Row> rows;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].empty()) return "";
    for (std::size_t worker = 0; worker < ranks[rank].size(); ++worker)
      rows.push_back({has_workers ? fmt::format("{}.{}", rank, worker) : fmt::format("{}", rank),
                      ranks[rank][worker]});
  }
  if (std::ranges::any_of(rows, [](const Row& row) { return row.times.steps == 0; })) return "";
  const std::string name = has_workers ? "worker" : "rank";
  std::string text = name;
  for (const char* const part : step_part_names) text += fmt::format(" {:>8}     ", part);
  text.erase(text.find_last_not_of(' ') + 1);
  text += " ms/step\n";
  const auto shown = std::min(std::ssize(rows), most_rows_shown);
  for (std::ptrdiff_t i = 0; i < shown; ++i)
    text += text_of(rows[static_cast<std::size_t>(i)], name.size());
  if (shown < std::ssize(rows)) {
    const auto slowest = std::min_element(rows.begin() + shown, rows.end(), is_slower);
    text += fmt::format(" ...  the slowest of {} more:\n", std::ssize(rows) - shown);
    text += text_of(*slowest, name.size());
  }
  return text + exchange_line(rows, name);
}

}  // namespace tasuki
