// Curves in a terminal.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tools/plot/curves.hpp"

namespace tasuki::plot {

// Each panel in 16 rows of at most `width` characters (at least 40), with a letter for each curve
// and a line for each title below. Where curves meet, the first one is seen.
std::string text_plot(std::span<const Panel> panels, const std::string& x, std::size_t width);

}  // namespace tasuki::plot
