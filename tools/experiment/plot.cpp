#include "tools/experiment/plot.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "tools/processes/gnuplot.hpp"

namespace tasuki::experiment {
namespace {

namespace fs = std::filesystem;
using processes::quoted_for_gnuplot;

// Rows that form one line of the plot.
struct Line {
  std::string title;
  std::string points;
};

std::vector<Line> speedup_lines(const ExperimentPlan& plan, const std::vector<TableRow>& rows) {
  std::vector<std::string> others = plan.varying();
  std::erase(others, "np");
  std::vector<Line> lines;
  for (const TableRow& row : rows) {
    if (!row.speedup) continue;
    const std::string title = others.empty() ? "measured" : row.settings.text(others);
    auto line = std::ranges::find(lines, title, &Line::title);
    if (line == lines.end()) line = lines.insert(lines.end(), {title, ""});
    line->points += fmt::format("{} {}\n", row.settings.np, *row.speedup);
  }
  return lines;
}

std::string speedup_plot(const ExperimentPlan& plan, const std::vector<TableRow>& rows) {
  const std::vector<Line> lines = speedup_lines(plan, rows);
  std::string text, plots;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format("$line{} << EOD\n{}EOD\n", i, lines[i].points);
    plots += fmt::format("$line{} with linespoints pointtype 7 title {}, ", i,
                         quoted_for_gnuplot(lines[i].title));
  }
  std::int64_t least = rows[0].settings.np, most = least;
  for (const TableRow& row : rows) {
    least = std::min(least, row.settings.np);
    most = std::max(most, row.settings.np);
  }
  return text + fmt::format(
                    "set xlabel \"processes\"\nset ylabel \"speed-up\"\n"
                    "set xtics 1\nset xrange [0:{}]\nset yrange [0:*]\nset key left top\n"
                    "plot {}x / {} with lines dashtype 2 title \"ideal\"\n",
                    most + 1, plots, least);
}

std::string time_plot(const ExperimentPlan& plan, const std::vector<TableRow>& rows) {
  std::string points, names;
  int bars = 0;
  for (const TableRow& row : rows) {
    if (!row.result) continue;
    points += fmt::format("{} {}\n", bars, row.result->seconds);
    names += fmt::format("{}{} {}", bars == 0 ? "" : ", ",
                         quoted_for_gnuplot(row.settings.text(plan.varying())), bars);
    ++bars;
  }
  return fmt::format(
      "$times << EOD\n{}EOD\nset ylabel \"time [s]\"\nset yrange [0:*]\n"
      "set style fill solid 0.6\nset boxwidth 0.6\nset xtics ({}) rotate by -30\n"
      "plot $times with boxes notitle\n",
      points, names);
}

}  // namespace

std::string gnuplot_script(const ExperimentPlan& plan, const std::vector<TableRow>& rows,
                           const std::string& image) {
  const bool is_png = image.ends_with(".png");
  const auto varying = plan.varying();
  const bool has_speedups =
      std::ranges::find(varying, "np") != varying.end() &&
      std::ranges::any_of(rows, [](const TableRow& row) { return row.speedup.has_value(); });
  return fmt::format(
      "set terminal {} size 800,500 noenhanced\nset output {}\nset title {}\n"
      "set grid\n{}",
      is_png ? "png" : "svg", quoted_for_gnuplot(fs::absolute(image).string()),
      quoted_for_gnuplot(plan.title),
      has_speedups ? speedup_plot(plan, rows) : time_plot(plan, rows));
}

}  // namespace tasuki::experiment
