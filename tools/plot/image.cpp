#include "tools/plot/image.hpp"

#include <fmt/core.h>

#include "core/file.hpp"
#include "core/named_file.hpp"
#include "tools/processes/gnuplot.hpp"

namespace tasuki::plot {

using processes::quoted_for_gnuplot;

std::string gnuplot_script(std::span<const Panel> panels, const std::string& x, bool is_png,
                           const std::filesystem::path& output) {
  constexpr int width = 800, height = 400;  // pixels of a panel
  std::string script = fmt::format(
      "set terminal {} size {},{} noenhanced\nset output {}\nset grid\nset xlabel {}\n"
      "set key outside below\nset multiplot layout {},1\n",
      is_png ? "png" : "svg", width, height * panels.size(), quoted_for_gnuplot(output.string()),
      quoted_for_gnuplot(x == "elapsed_time" ? "elapsed time [s]" : x), panels.size());
  int number = 0;
  for (const Panel& panel : panels) {
    std::string plots;
    for (const Curve& curve : panel.curves) {
      script += fmt::format("$curve{} << EOD\n", number);
      for (const auto& [at, value] : curve.points) script += fmt::format("{} {}\n", at, value);
      script += "EOD\n";
      plots += fmt::format("{}$curve{} with {} linewidth 1.5 title {}", plots.empty() ? "" : ", ",
                           number++, curve.points.size() > 1 ? "lines" : "points",
                           quoted_for_gnuplot(curve.title));
    }
    script += fmt::format("set ylabel {}\nplot {}\n", quoted_for_gnuplot(panel.label), plots);
  }
  return script + "unset multiplot\nset output\n";
}

void draw(std::span<const Panel> panels, const std::string& x, const std::filesystem::path& image) {
  const std::filesystem::path target = end_of_links(std::filesystem::absolute(image));
  make_output_folder(target.parent_path());
  replace_file(target, [&](const std::filesystem::path& temporary) {
    processes::run_gnuplot(gnuplot_script(panels, x, image.extension() == ".png", temporary));
  });
}

}  // namespace tasuki::plot
