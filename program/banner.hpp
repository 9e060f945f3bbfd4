// What a training program says before it trains: ChainerMN's lines, and where each rank runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tasuki/program/job.hpp"

namespace tasuki::program {

// "Num unit", "1000": lines of the program's own, as "name: value".
using BannerLines = std::vector<std::pair<std::string, std::string>>;

// Where a rank runs and with what.
struct RankPlace {
  std::string host, device, cpus;
  int threads = 1, lost_to_binding = 0;
  std::string threads_origin = "";  // as ThreadPlan
};

// The text. Of many ranks the map shows the first ones and says how many follow.
std::string banner_text(const BannerLines& lines, const std::vector<RankPlace>& places);

// Gathers the places of all ranks and prints the banner on rank 0, on standard output. Collective.
void print_banner(const Job& job, const BannerLines& lines);

}  // namespace tasuki::program
