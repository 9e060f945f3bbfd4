#include "tools/plot/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki::plot {
namespace {

constexpr int rows = 16;
constexpr std::size_t margin = 12;  // for the numbers of the vertical axis
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";

struct Bounds {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void include(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // The cell of a value, 0 to cells - 1.
  std::size_t cell(double value, std::size_t cells) const {
    if (most <= least) return 0;
    // Halves, whose difference does not overflow.
    const double share = (value / 2 - least / 2) / (most / 2 - least / 2);
    const double last = static_cast<double>(cells - 1);
    return static_cast<std::size_t>(std::clamp(std::round(share * last), 0.0, last));
  }
};

char letter_of(std::size_t curve) {
  return letters[curve % letters.size()];
}

std::string text_of(const Panel& panel, const std::string& x, std::size_t columns) {
  Bounds across, up;
  for (const Curve& curve : panel.curves)
    for (const auto& [at, value] : curve.points) {
      across.include(at);
      up.include(value);
    }
  std::vector<std::string> picture(rows, std::string(columns, ' '));
  for (std::size_t curve = panel.curves.size(); curve-- > 0;)
    for (const auto& [at, value] : panel.curves[curve].points)
      picture[rows - 1 - up.cell(value, rows)][across.cell(at, columns)] = letter_of(curve);
  std::string text = panel.label + '\n';
  for (int row = 0; row < rows; ++row) {
    const std::string number = row == 0          ? fmt::format("{:.4g}", up.most)
                               : row == rows - 1 ? fmt::format("{:.4g}", up.least)
                                                 : "";
    std::string line = fmt::format("{:>{}} |{}", number, margin - 2, picture[row]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  const std::string first = fmt::format("{:.6g}", across.least);
  const std::string last = fmt::format("{} {:.6g}", x, across.most);
  const std::size_t between =
      columns > first.size() + last.size() + 1 ? columns - first.size() - last.size() : 1;
  text += fmt::format("{:>{}}+{}\n{:{}}{}{:{}}{}\n", "", margin - 1, std::string(columns, '-'), "",
                      margin, first, "", between, last);
  for (std::size_t curve = 0; curve < panel.curves.size(); ++curve)
    text += fmt::format("  {}  {} (last {:.6g})\n", letter_of(curve), panel.curves[curve].title,
                        panel.curves[curve].points.back().second);
  return text;
}

}  // namespace

std::string text_plot(std::span<const Panel> panels, const std::string& x, std::size_t width) {
  constexpr std::size_t least = 40;
  const std::size_t columns = std::max(width, least) - margin;
  std::string text;
  for (const Panel& panel : panels) {
    if (!text.empty()) text += '\n';
    text += text_of(panel, x, columns);
  }
  return text;
}

}  // namespace tasuki::plot
