#include "core/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/error.hpp"

namespace tasuki {
namespace {

constexpr const char* variable = "TASUKI_TEST_SWITCH";

class Switches : public ::testing::Test {
 protected:
  ~Switches() override { unsetenv(variable); }
};

TEST_F(Switches, AreOneOrZero) {
  EXPECT_FALSE(is_switched_on(variable));
  for (const auto& [value, is_on] : {std::pair{"1", true}, {"0", false}, {"", false}}) {
    setenv(variable, value, 1);
    EXPECT_EQ(is_switched_on(variable), is_on) << value;
  }
}

TEST_F(Switches, RejectOtherValues) {
  for (const char* const value : {"abc", "2", "true", " 1", "01"}) {
    setenv(variable, value, 1);
    try {
      is_switched_on(variable);
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(error.what(), std::string("TASUKI_TEST_SWITCH=") + value + "; expected 1 or 0");
    }
  }
}

}  // namespace
}  // namespace tasuki
