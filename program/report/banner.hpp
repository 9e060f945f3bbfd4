// The banner of a training program: ChainerMN's lines, and where each rank runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/optimizer.hpp"
#include "program/flags/training_settings.hpp"
#include "saving/state.hpp"

namespace tasuki::program {

struct RankSetup;
struct TrainingData;

// "Num unit", "1000": lines of the banner, as "name: value".
using BannerLines = std::vector<std::pair<std::string, std::string>>;

// The lines of ChainerMN's banner, lines on data, optimizer, output folder and the state that the
// run resumes from, and the program's `own` lines.
BannerLines banner_lines(const RankSetup& setup, const TrainingSettings& settings,
                         const NamedOptimizers& optimizers, const TrainingData& data,
                         const std::filesystem::path& out,
                         const std::optional<RunPosition>& resumed, BannerLines own);

// Where a rank runs, and with how many threads.
struct RankPlace {
  std::string host, device, cpus;
  int threads = 1, lost_to_binding = 0;
  std::string threads_origin = "";  // as ThreadPlan
};

// The text. With many ranks, the map shows the first ones and the number of the others.
std::string banner_text(const BannerLines& lines, const std::vector<RankPlace>& places);

// Gathers the places of all ranks and prints the banner on rank 0, on standard output. Collective.
void print_banner(const RankSetup& setup, const BannerLines& lines);

}  // namespace tasuki::program
