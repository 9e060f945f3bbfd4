// Snapshots of parts of a model, compared with those of the whole one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "saving/npz.hpp"

namespace tasuki::testing {

// That `parts`.0 and `parts`.1 have the weights of `whole`, and no others.
inline void expect_same_weights(const std::string& parts, const std::string& whole) {
  const NpzFile expected(whole);
  const auto is_weight = [](const std::string& name) {
    return name.starts_with("updater/model:main/");
  };
  std::ptrdiff_t compared = 0;
  for (const char* const suffix : {".0", ".1"}) {
    const NpzFile part(parts + suffix);
    for (const std::string& name : part.names()) {
      if (!is_weight(name)) continue;
      const Tensor a = std::get<Tensor>(part.read(name)), b = std::get<Tensor>(expected.read(name));
      ASSERT_EQ(a.shape(), b.shape()) << name;
      for (std::int64_t i = 0; i < a.count(); ++i)
        ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-4) << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
  EXPECT_EQ(compared, std::ranges::count_if(expected.names(), is_weight));
}

}  // namespace tasuki::testing
