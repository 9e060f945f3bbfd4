#include "core/temporary_name.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <string>

#include "core/environment.hpp"
#include "tests/support/leftover.hpp"

namespace tasuki {
namespace {

TEST(TemporaryNames, IdentifyTheirOwner) {
  const std::filesystem::path name = temporary_name("a/b/log");
  EXPECT_EQ(name.parent_path(), "a/b");
  const std::string text = name.filename().string();
  EXPECT_TRUE(text.starts_with("log.tasuki-" + host_name() + "-")) << text;
  EXPECT_NE(text.find(fmt::format("-{}-", ::getpid())), text.npos) << text;
  EXPECT_EQ(name_of_temporary(text), "log");
  EXPECT_EQ(final_path("a" / temporary_name("iter_4") / "state.npz"), "a/iter_4/state.npz");
  std::set<std::filesystem::path> names;
  for (int i = 0; i < 100; ++i) names.insert(temporary_name("log"));
  EXPECT_EQ(names.size(), 100U);
}

TEST(TemporaryNames, FitInAFolder) {
  std::string name(255, 'x');
  EXPECT_LE(temporary_name(name).string().size(), 255U);
  EXPECT_EQ(name_of_temporary(temporary_name(name).string()), name.substr(0, 100));
  // No character is cut in two.
  name = "x";
  for (int i = 0; i < 100; ++i) name += "\u00e9";
  EXPECT_EQ(name_of_temporary(temporary_name(name).string()), name.substr(0, 99));
}

TEST(TemporaryNames, AreLeftoversOnceTheirProcessHasEnded) {
  EXPECT_FALSE(is_leftover(temporary_name("log").string())) << "of this process";
  const std::string name = testing::leftover("log").string();
  ASSERT_EQ(name_of_temporary(name), "log");
  EXPECT_TRUE(is_leftover(name));
}

TEST(TemporaryNames, AreLeftoversOfZombieProcesses) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string name = temporary_name("log");
    _exit(write(ends[1], name.data(), name.size()) < 0);
  }
  std::array<char, 1000> name{};
  const ssize_t size = read(ends[0], name.data(), name.size());
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_leftover({name.data(), static_cast<std::size_t>(size)}));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  for (const int end : ends) close(end);
}

TEST(TemporaryNames, AreNotLeftoversOnOtherHosts) {
  const std::string name = testing::leftover("log").string(), host = host_name();
  ASSERT_TRUE(is_leftover(name));
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string changed = name;
    return changed.replace(changed.find(part), part.size(), other);
  };
  EXPECT_FALSE(is_leftover(with(host, host + "2")));
  EXPECT_FALSE(is_leftover(with(host, "x")));
  const std::string place = name.substr(name.find(host) + host.size() + 1, 24),
                    machine = place.substr(0, 8), boot = place.substr(8, 8),
                    process_namespace = place.substr(16);
  const auto at = [&](const std::string& other_machine, const std::string& other_boot) {
    return with(place, other_machine + other_boot + process_namespace);
  };
  EXPECT_FALSE(is_leftover(with(place, machine + boot + "00000001"))) << "namespace";
  EXPECT_FALSE(is_leftover(at(machine, "00000000"))) << "no boot is known";
  // This host was booted since: no process of then is left. Another one may have its name.
  const bool is_known = machine != "00000000";
  EXPECT_EQ(is_leftover(at(machine, "0123abcd")), is_known);
  EXPECT_FALSE(is_leftover(at("0123abcd", "0123abcd"))) << "another machine of that name";
  EXPECT_FALSE(is_leftover(at("00000000", "0123abcd"))) << "a machine that is not known";
}

TEST(TemporaryNames, DoNotMatchUserFiles) {
  for (const char* const name :
       {"", "thesis.2024.tmp", "snapshot_iter_5.123.tmp", "log.9.tmp", "notes.tmp", ".tasuki",
        "iter_7.tmp", "a.tasuki-tmp", "a.tasuki-b.tmp", "a.tasuki-host-1-2-3.tmp",
        "a.tasuki-host-0123abcd4567cdef89ab0123-x-0123456789abcdef.tmp",
        "a.tasuki-host-0123abcd4567cdef89ab0123-12-.tmp",
        "a.tasuki-host-0123abcd-12-0123456789abcdef.tmp",
        "tasuki-host-0123abcd4567cdef89ab0123-12-0123.tmp",
        "a.b-host-0123abcd4567cdef89ab0123-12-0123.tmp"}) {
    EXPECT_EQ(name_of_temporary(name), std::nullopt) << name;
    EXPECT_FALSE(is_leftover(name)) << name;
  }
}

}  // namespace
}  // namespace tasuki
