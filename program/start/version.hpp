// Versions of Tasuki and its libraries, for --version and bug reports.
#pragma once

#include <string>

namespace tasuki::program {

// "Tasuki 0.1.0 (5ad6af21), oneDNN 2.6.0, Open MPI v4.1.4".
std::string describe_versions();

// Several lines, the first "<program> (Tasuki) <version>".
std::string version_text(const std::string& program);

}  // namespace tasuki::program
