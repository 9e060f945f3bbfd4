// Curves as an image, by gnuplot.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "tools/plot/curves.hpp"

namespace tasuki::plot {

// A gnuplot script with the data in it, which draws the panels one below the other to `output`.
std::string gnuplot_script(std::span<const Panel> panels, const std::string& x, bool is_png,
                           const std::filesystem::path& output);

// Replaces `image` (.svg or .png). Errors: run_gnuplot()'s, and of kind cannot_write.
void draw(std::span<const Panel> panels, const std::string& x, const std::filesystem::path& image);

}  // namespace tasuki::plot
