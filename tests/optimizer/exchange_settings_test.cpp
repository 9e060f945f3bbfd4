// What excludes what in the exchange of gradients, for flags and library alike.
#include "optimizer/exchange_settings.hpp"

#include <gtest/gtest.h>

namespace tasuki {
namespace {

constexpr ExchangeContext on_cpu{}, on_gpu{.is_on_gpu = true};
constexpr ExchangeContext rounded{.wire_dtype = DType::float16};
constexpr ExchangeContext sums_only{.wire_dtype = DType::float16, .keeps_sums_only = true};
constexpr ExchangeContext scaled{.wire_dtype = DType::float16, .scales_losses = true};

TEST(ExchangeSettings, AcceptCompatibleSettings) {
  for (const ExchangeContext& context : {on_cpu, on_gpu, rounded, scaled})
    for (const auto mode : {std::optional<ExchangeMode>(), std::optional(ExchangeMode::overlapped),
                            std::optional(ExchangeMode::whole)})
      for (const std::int64_t bytes : {0, 1024})
        EXPECT_EQ(conflict_in({.mode = mode, .range_bytes = bytes}, context), "");
  for (const auto mode : {ExchangeMode::overlapped, ExchangeMode::slices, ExchangeMode::thread})
    EXPECT_EQ(conflict_in({.mode = mode}, sums_only), "");
  for (const ExchangeContext& context : {rounded, on_gpu})
    EXPECT_EQ(conflict_in({.mode = ExchangeMode::double_buffered}, context), "");
  EXPECT_EQ(conflict_in({.mode = ExchangeMode::whole, .power_sgd_rank = 4}, rounded), "");
  EXPECT_EQ(conflict_in({.mode = ExchangeMode::thread, .error_feedback = true}, rounded), "");
}

TEST(ExchangeSettings, RejectConflictingSettingsInOneLine) {
  struct Case {
    ExchangeSettings settings;
    ExchangeContext context;
    const char* words;
  };
  const ExchangeSettings late{.mode = ExchangeMode::double_buffered};
  for (const auto& [settings, context, words] :
       {Case{{.error_feedback = true, .power_sgd_rank = 1}, rounded, "exclude each other"},
        Case{{.power_sgd_rank = 1}, on_gpu, "leave it or --gpu out"},
        Case{{.error_feedback = true}, {true, DType::float16}, "leave it or --gpu out"},
        Case{{.error_feedback = true}, on_cpu, "float32 is not rounded"},
        Case{{.mode = ExchangeMode::slices, .power_sgd_rank = 1}, on_cpu, "--exchange slices"},
        Case{{.mode = ExchangeMode::double_buffered, .error_feedback = true}, rounded, "two steps"},
        Case{{.range_bytes = 64, .power_sgd_rank = 1}, on_cpu, "--bucket-mb"},
        Case{{.mode = ExchangeMode::double_buffered, .range_bytes = 64}, on_cpu, "--bucket-mb"},
        Case{late, scaled, "double-buffered gradients and loss scaling"},
        Case{{.error_feedback = true}, scaled, "error feedback and loss scaling"},
        Case{{.power_sgd_rank = 1}, scaled, "compressed gradients and loss scaling"},
        Case{late, {.is_on_gpu = true, .layers_communicate = true}, "--sync-bn"},
        Case{late, sums_only, "double-buffered gradients: what waits"},
        Case{{.power_sgd_rank = 1}, sums_only, "compressed gradients: what waits"},
        Case{{.error_feedback = true}, sums_only, "error feedback: what waits"},
        Case{{.mode = ExchangeMode::whole}, sums_only, "--exchange whole"},
        Case{{}, {.is_on_gpu = true, .keeps_sums_only = true}, "--shard gradients and --gpu"}}) {
    const std::string found = conflict_in(settings, context);
    EXPECT_NE(found.find(words), std::string::npos) << words << " is not in: " << found;
    EXPECT_NE(found.find("leave"), std::string::npos) << "what to do: " << found;
    EXPECT_EQ(found.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace tasuki
