#include "table.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "program/flags/flag_groups.hpp"

namespace tasuki::program {
namespace {

double bytes_of(const ExchangeRow& row) {
  return static_cast<double>(row.count) * sizeof(float);
}

double algorithm_rate(const ExchangeRow& row) {
  return bytes_of(row) / row.seconds.median;
}

// Bus bandwidth as nccl-tests defines it: if the link is the limit, it is the same for all numbers
// of ranks.
double bus_rate(const ExchangeRow& row, const ExchangeSetting& setting) {
  return algorithm_rate(row) * 2 * (setting.ranks - 1) / setting.ranks;
}

std::string wire_of(const ExchangeRow& row) {
  return name_of(wire_dtypes(), row.wire);
}

}  // namespace

Percentiles percentiles_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(seconds.size()));
    return seconds[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  return {seconds.front(), at(0.5), at(0.9), at(0.99), seconds.back()};
}

std::optional<double> bound_of(const ExchangeRow& row, const ExchangeSetting& setting) {
  if (!setting.link_rate || setting.nodes < 2) return {};
  const double on_wire = static_cast<double>(row.count) * static_cast<double>(size_of(row.wire));
  return on_wire * 2 * (setting.nodes - 1) / setting.nodes / *setting.link_rate;
}

std::string table_heading() {
  return fmt::format(
      "{:>12} {:<16} {:<16} {:<5} {:<9} {:>10} {:>10} {:>10} {:>10} {:>8} {:>7} {:>7}\n", "bytes",
      "communicator", "algorithm", "wire", "memory", "min us", "median us", "p90 us", "p99 us",
      "busbw", "%bound", "#wrong");
}

std::string text_of(const ExchangeRow& row, const ExchangeSetting& setting) {
  const auto bound = bound_of(row, setting);
  const std::string share =
      bound ? fmt::format("{:.0f}", 100 * *bound / row.seconds.median) : std::string("-");
  return fmt::format(
      "{:>12} {:<16} {:<16} {:<5} {:<9} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.3f} {:>7} "
      "{:>7}\n",
      row.count * static_cast<std::int64_t>(sizeof(float)), row.communicator, row.algorithm,
      wire_of(row), row.memory, row.seconds.least * 1e6, row.seconds.median * 1e6,
      row.seconds.p90 * 1e6, row.seconds.p99 * 1e6, bus_rate(row, setting) / 1e9, share, row.wrong);
}

nlohmann::json json_of(const ExchangeRow& row, const ExchangeSetting& setting) {
  nlohmann::json json = {{"bytes", row.count * static_cast<std::int64_t>(sizeof(float))},
                         {"communicator", row.communicator},
                         {"algorithm", row.algorithm},
                         {"wire_dtype", wire_of(row)},
                         {"memory", row.memory},
                         {"min_seconds", row.seconds.least},
                         {"median_seconds", row.seconds.median},
                         {"p90_seconds", row.seconds.p90},
                         {"p99_seconds", row.seconds.p99},
                         {"max_seconds", row.seconds.most},
                         {"algbw_gb_per_s", algorithm_rate(row) / 1e9},
                         {"busbw_gb_per_s", bus_rate(row, setting) / 1e9},
                         {"wrong", row.wrong}};
  if (const auto bound = bound_of(row, setting)) json["bound_seconds"] = *bound;
  return json;
}

}  // namespace tasuki::program
