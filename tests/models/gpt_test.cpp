#include "models/gpt.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/functions/loss.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr GptSettings small_gpt = {
    .symbols = 11, .layers = 2, .heads = 2, .width = 8, .context = 6};

Variable ids_of(const std::vector<std::int32_t>& ids, std::int64_t items) {
  return Variable(
      Tensor::from(std::span<const std::int32_t>(ids), {items, std::ssize(ids) / items}));
}

TEST(Gpt, HasParametersOfGpt2) {
  Gpt model(small_gpt);
  // Embeddings of symbols and positions; in a block two norms and 12 w^2 + 9 w of linear layers;
  // the last norm; scores.
  EXPECT_EQ(model.parameter_count(), 17 * 8 + 2 * (4 * 8 + 12 * 64 + 9 * 8) + 2 * 8 + 11 * 8);
  EXPECT_EQ(model.parameters().front().path, "embed/W");
  EXPECT_THROW(Gpt({.heads = 3, .width = 8}), Error);
}

// GPT-2's scores are products with the embeddings, whose gradients are those of both uses.
TEST(Gpt, TiedScoresShareTheEmbeddings) {
  GptSettings settings = small_gpt;
  settings.is_gpt2 = true;
  Gpt tied(settings), apart(small_gpt);
  EXPECT_EQ(tied.parameter_count(), apart.parameter_count() - 11 * 8);
  tied.initialize(3);
  const Variable ids = ids_of({1, 2, 3, 4, 5, 10}, 1);
  const Tensor t = ids_of({2, 3, 4, 5, 10, 0}, 6).value().reshape({6});
  F::softmax_cross_entropy(tied(ids), t).backward();
  const Tensor& w = tied.parameters().front().parameter->value();
  const Tensor found = tied.parameters().front().parameter->grad();
  constexpr float step = 1e-3f;
  for (const std::int64_t at : {8, 9, 85}) {  // symbols 1 and 10
    const auto loss_at = [&](float change) {
      const float before = w.data<float>()[at];
      w.data<float>()[at] = before + change;
      const double loss = F::softmax_cross_entropy(tied(ids), t).value().item();
      w.data<float>()[at] = before;
      return loss;
    };
    EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), found.data<float>()[at], 3e-4) << at;
    EXPECT_GT(std::abs(found.data<float>()[at]), 3e-3) << at;
  }
}

TEST(Gpt, ScoresDependOnlyOnEarlierSymbols) {
  Gpt model(small_gpt);
  model.initialize(3);
  const Tensor a = model(ids_of({1, 2, 3, 4, 5}, 1)).value();
  const Tensor b = model(ids_of({1, 2, 3, 9, 9}, 1)).value();
  ASSERT_EQ(a.shape(), Shape({5, 11}));
  for (int i = 0; i < 3 * 11; ++i) EXPECT_EQ(a.span<float>()[i], b.span<float>()[i]) << i;
  EXPECT_NE(a.span<float>()[3 * 11], b.span<float>()[3 * 11]);
  EXPECT_THROW(model(ids_of({1, 2, 3, 4, 5, 6, 7}, 1)), Error);
}

// The scores of a text's last symbol, all at once and read in parts.
TEST(Gpt, ScoresDoNotDependOnReadingInParts) {
  Gpt model(small_gpt);
  model.initialize(3);
  const std::vector<std::int32_t> symbols = {1, 2, 3, 10, 0, 5};
  const Tensor ids = Tensor::from(std::span(symbols), {std::ssize(symbols)});
  const Tensor expected = model(ids_of(symbols, 1)).value();
  for (std::int64_t first = 1; first <= ids.count(); ++first) {
    GptText text(model);
    for (std::int64_t end = first; end <= ids.count(); ++end) {
      const Tensor found = text.read(ids.slice(text.length(), end));
      ASSERT_EQ(text.length(), end);
      ASSERT_EQ(found.shape(), Shape({1, 11}));
      for (std::int64_t i = 0; i < 11; ++i)
        EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[(end - 1) * 11 + i], 1e-6);
    }
    EXPECT_THROW(text.read(Tensor::zeros({1}, DType::int32)), Error);
  }
}

// Along the gradient, shorter than the context: positions behind the text have no gradient.
TEST(Gpt, GradientsMatchFiniteDifferences) {
  Gpt model(small_gpt);
  model.initialize(3);
  const Variable x = ids_of({1, 2, 3, 4, 5, 6, 7, 8}, 2);
  const Tensor t = ids_of({2, 3, 4, 5, 6, 7, 8, 9}, 1).value().reshape({8});
  F::softmax_cross_entropy(model(x), t).backward();
  double squares = 0;
  std::vector<Tensor> gradients;
  for (const auto& each : model.parameters()) {
    gradients.push_back(each.parameter->grad().clone());
    for (const float g : gradients.back().span<float>())
      squares += static_cast<double>(g) * static_cast<double>(g);
  }
  const auto loss_at = [&](double step) {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto w = model.parameters()[i].parameter->value().span<float>();
      for (std::size_t j = 0; j < w.size(); ++j)
        w[j] += static_cast<float>(step) * gradients[i].span<float>()[j];
    }
    const double loss = F::softmax_cross_entropy(model(x), t).value().item();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto w = model.parameters()[i].parameter->value().span<float>();
      for (std::size_t j = 0; j < w.size(); ++j)
        w[j] -= static_cast<float>(step) * gradients[i].span<float>()[j];
    }
    return loss;
  };
  const double step = 0.002 / std::sqrt(squares);
  EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), squares, 1e-2 * squares);
  for (const auto& each : model.parameters()) {
    if (each.path != "position/W") continue;
    const Tensor unused = each.parameter->grad().slice(4, 6);
    for (const float g : unused.span<float>()) EXPECT_EQ(g, 0);
  }
}

}  // namespace
}  // namespace tasuki
