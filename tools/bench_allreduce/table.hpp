// The table of bench_allreduce: a row for each exchanged vector.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.hpp"

namespace tasuki::program {

// Times of exchanges, each on its slowest rank.
struct Percentiles {
  double least = 0, median = 0, p90 = 0, p99 = 0, most = 0;  // seconds
};
// The value at rank ceil(share * n) of the n sorted ones (at least one).
Percentiles percentiles_of(std::vector<double> seconds);

struct ExchangeRow {
  std::string communicator, algorithm, memory;
  DType wire = DType::float32;
  std::int64_t count = 0;  // floats
  Percentiles seconds{};
  std::int64_t wrong = 0;  // elements, over all ranks
};

// Who exchanges, and over what.
struct ExchangeSetting {
  int ranks = 1, nodes = 1;
  // In each direction between two machines, in bytes per second; empty: not known.
  std::optional<double> link_rate = {};
};

// The least time in which machines with such a link can sum a vector: each has to send and to
// receive 2 (n - 1) / n of its bytes on the wire, for n machines (Patarasu and Yuan 2009). Empty:
// the rate is not known, or there is one machine.
std::optional<double> bound_of(const ExchangeRow& row, const ExchangeSetting& setting);

std::string table_heading();
std::string text_of(const ExchangeRow& row, const ExchangeSetting& setting);
nlohmann::json json_of(const ExchangeRow& row, const ExchangeSetting& setting);

}  // namespace tasuki::program
