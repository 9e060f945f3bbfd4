// Learning curves: values of runs' logs.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tasuki::plot {

struct Curve {
  std::string title;
  std::vector<std::pair<double, double>> points;  // x, y: finite
};

// Curves with one vertical axis: of keys that end alike, such as "main/loss" and
// "validation/main/loss".
struct Panel {
  std::string label;  // "loss"
  std::vector<Curve> curves;
};

// The keys that are drawn if none are given, as far as a log has them.
std::span<const std::string> usual_keys();

// `runs`: output folders, or logs themselves. `x` is the key of the horizontal axis, "iteration",
// "epoch" or "elapsed_time". A curve is named after its run's folder, and after its key where a
// panel has several. Errors, in one line: a log that cannot be read or is none, a key of `keys`
// that no log has (with those that it could be), and logs without any usual key.
std::vector<Panel> read_panels(std::span<const std::filesystem::path> runs,
                               std::span<const std::string> keys, const std::string& x);

}  // namespace tasuki::plot
