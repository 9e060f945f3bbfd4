#include "core/control_groups.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

class ControlGroups : public ::testing::Test {
 protected:
  std::vector<std::pair<std::string, int>> found(const std::string& lines,
                                                 const std::string& controller) {
    const std::filesystem::path proc = folder.path() / "proc", self = proc / "self";
    std::filesystem::create_directories(self);
    std::ofstream(self / "cgroup") << lines;
    std::vector<std::pair<std::string, int>> groups;
    for (const ControlGroup& group : control_groups(controller, {proc, "/groups"}))
      groups.emplace_back(group.folder.string(), group.version);
    return groups;
  }

  testing::TemporaryFolder folder;
};

using Groups = std::vector<std::pair<std::string, int>>;

TEST_F(ControlGroups, OfVersionTwoAreAllUpToTheRoot) {
  EXPECT_EQ(found("0::/user/job\n", "cpu"),
            (Groups{{"/groups/user/job", 2}, {"/groups/user", 2}, {"/groups/", 2}}));
}

TEST_F(ControlGroups, OfVersionOneAreThoseWithTheController) {
  const std::string lines = "5:memory:/m\n4:cpu,cpuacct:/c\n1:name=systemd:/\nnonsense\n";
  EXPECT_EQ(found(lines, "cpu"), (Groups{{"/groups/cpu/c", 1}, {"/groups/cpu/", 1}}));
  EXPECT_EQ(found(lines, "memory"), (Groups{{"/groups/memory/m", 1}, {"/groups/memory/", 1}}));
  EXPECT_EQ(found(lines, "acct"), Groups{});
}

}  // namespace
}  // namespace tasuki
