// gnuplot, which draws plots.
#pragma once

#include <string>
#include <string_view>

namespace tasuki::processes {

// Quoted for gnuplot with single quotes: in double quotes it would execute text in backquotes.
std::string quoted_for_gnuplot(std::string_view text);

// Has gnuplot run a script. An error of kind unavailable says that it is not installed, and one of
// kind io what it says about the script.
void run_gnuplot(std::string_view script);

}  // namespace tasuki::processes
