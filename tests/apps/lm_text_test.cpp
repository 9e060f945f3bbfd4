// Texts that a transformer makes up or is measured on.

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lm/sample.hpp"
#include "apps/lm/text.hpp"
#include "dataset/files/text_windows.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "nn/functions/activation.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr GptSettings small = {.layers = 2, .heads = 2, .width = 16, .context = 12};

// With weights large enough for scores that differ.
struct Model {
  Gpt gpt{small};
  explicit Model(std::uint64_t seed = 3) {
    gpt.initialize(seed);
    for (const auto& each : gpt.parameters())
      if (each.parameter->shape().rank() == 2)
        backend(Device::cpu()).scale(each.parameter->value(), 10);
  }
};

// Scores of all 256 bytes after each byte of a text, by one forward pass.
Tensor scores_of(Gpt& model, const std::string& text) {
  const NoGrad no_grad;
  const Tensor ids = Tensor::empty({1, std::ssize(text)}, DType::int32);
  for (std::size_t i = 0; i < text.size(); ++i)
    ids.span<std::int32_t>()[i] = static_cast<unsigned char>(text[i]);
  return model(Variable(ids)).value();
}

// The text is computed again for each byte, as far as the context reaches.
Tensor scores_after(Gpt& model, const std::string& text) {
  const auto context = static_cast<std::size_t>(model.settings().context);
  const std::string seen = text.size() > context ? text.substr(text.size() - context) : text;
  return scores_of(model, seen).slice(std::ssize(seen) - 1, std::ssize(seen));
}

TEST(SampleText, MatchesFullForwardPassesPerByte) {
  Model model;
  for (const double temperature : {0.0, 0.8, 2.0}) {
    for (const std::string prompt : {"\n", "a prompt", "one longer than the context"}) {
      const std::string expected =
          lm::sample_text([&](const std::string& text) { return scores_after(model.gpt, text); },
                          prompt, 40, temperature, 7);
      EXPECT_EQ(lm::sample_text(model.gpt, prompt, 40, temperature, 7), expected) << temperature;
      EXPECT_EQ(expected.size(), prompt.size() + 40);
    }
  }
  EXPECT_NE(lm::sample_text(model.gpt, "\n", 40, 0.8, 8),
            lm::sample_text(model.gpt, "\n", 40, 0.8, 7));
}

TEST(CodeLength, IsTheSumOverAllBytes) {
  Model model;
  std::string text;
  for (int i = 0; i < 12 * 5 + 1; ++i) text.push_back(static_cast<char>(i * i % 251));
  double expected = 0;
  for (std::size_t window = 0; window < 5; ++window) {
    const NoGrad no_grad;
    const Tensor logs =
        F::log_softmax(Variable(scores_of(model.gpt, text.substr(window * 12, 12))), 1).value();
    for (std::size_t i = 0; i < 12; ++i) {
      const auto next = static_cast<unsigned char>(text[window * 12 + i + 1]);
      expected -= double{logs.span<float>()[i * 256 + next]} / std::log(2.0);
    }
  }
  for (const std::int64_t batch : {1, 2, 5}) {
    const auto windows = text_windows(text, 12);
    const auto batches = create_serial_iterator(Share::whole(windows), batch);
    const lm::CodeLength found = lm::code_length(model.gpt, *batches);
    EXPECT_EQ(found.bytes, 60);
    EXPECT_NEAR(found.bits, expected, 1e-5 * expected);
  }
}

TEST(SettingsOf, DescribesTheWeightsModel) {
  Gpt model({.layers = 3, .heads = 4, .width = 32, .context = 20});
  std::map<std::string, Shape> weights;
  for (const auto& each : model.parameters()) weights.emplace(each.path, each.parameter->shape());
  const GptSettings found = lm::settings_of(weights, 4);
  EXPECT_EQ(found.symbols, 256);
  EXPECT_EQ(found.layers, 3);
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.width, 32);
  EXPECT_EQ(found.context, 20);
  EXPECT_THROW(lm::settings_of(weights, 5), Error);
  weights.erase("blocks/0/qkv/W");
  EXPECT_THROW(lm::settings_of(weights, 4), Error);
  EXPECT_THROW(lm::settings_of({{"l1/W", Shape({10, 5})}}, 4), Error);
}

}  // namespace
}  // namespace tasuki
