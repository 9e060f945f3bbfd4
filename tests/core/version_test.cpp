// The identity of this program's build.
#include "core/version.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string_view>

namespace tasuki {
namespace {

// What a tool of the system says about this program.
std::string said_by_readelf() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen("readelf -n /proc/$PPID/exe 2>/dev/null", "r"), pclose);
  std::string text;
  for (char buffer[256]; pipe && std::fgets(buffer, sizeof(buffer), pipe.get()) != nullptr;)
    text += buffer;
  constexpr std::string_view label = "Build ID: ";
  const std::size_t at = text.find(label);
  return at == std::string::npos ? "" : text.substr(at + label.size(), 16);
}

TEST(BuildId, CoversProgramAndLibrary) {
  const auto builds = loaded_builds();
  const auto begins_with = [&](const std::string& name) {
    return std::ranges::count_if(
        builds, [&](const std::string& build) { return build.starts_with(name + ","); });
  };
  EXPECT_EQ(begins_with("test_core"), 1);
  EXPECT_TRUE(std::ranges::is_sorted(builds));
  for (const std::string& build : builds)
    EXPECT_TRUE(build.starts_with("test_core,") || build.starts_with("libtasuki")) << build;

  const std::string expected = said_by_readelf();
  if (expected.empty())
    GTEST_SKIP() << "readelf is not installed, or the linker writes no build id";
  EXPECT_EQ(std::ranges::count(builds, "test_core, build " + expected), 1);
}

}  // namespace
}  // namespace tasuki
