// The version of Tasuki.
#pragma once

namespace tasuki {

// "0.1.0 (5ad6af21)": the release and, if built from a git repository, the commit.
const char* version();

}  // namespace tasuki
