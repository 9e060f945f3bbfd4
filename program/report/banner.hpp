// The banner of a training program: ChainerMN's lines, and where each rank runs.
#pragma once

#include <string>
#include <vector>

#include "program/start/setup.hpp"
#include "program/training_program.hpp"

namespace tasuki::program {

// Where a rank runs, and with how many threads.
struct RankPlace {
  std::string host, device, cpus;
  int threads = 1, lost_to_binding = 0;
  std::string threads_origin = "";  // as ThreadPlan
};

// The text. If there are many ranks, the map shows the first ones and the number of the others.
std::string banner_text(const BannerLines& lines, const std::vector<RankPlace>& places);

// Gathers the places of all ranks and prints the banner on rank 0, on standard output. Collective.
void print_banner(const RankSetup& setup, const BannerLines& lines);

}  // namespace tasuki::program
