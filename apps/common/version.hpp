// Versions of Tasuki and of what it runs on, for --version and bug reports.
#pragma once

#include <string>

namespace tasuki::apps {

// Several lines, the first "<program> (Tasuki) <version>".
std::string version_text(const std::string& program);

}  // namespace tasuki::apps
