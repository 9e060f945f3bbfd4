// ModelSummary: rows, parameters, operations and memory of passes whose numbers are known.
#include "nn/model_summary.hpp"

#include <gmock/gmock.h>

#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/sequences.hpp"
#include "nn/n_step_rnn.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

struct Tied : Layer {
  Tied() : layer(6, 6) { add("layer", layer); }
  Variable forward(const Variable& x) override { return layer(F::relu(layer(x))); }
  Linear layer;
};

TEST(ModelSummary, CountsWhatAConvolutionalNetworkComputes) {
  Sequential net;
  net.append("conv", std::make_unique<Conv2d>(3, 8, 3, 1, 1))
      .append(F::relu)
      .append("fc", std::make_unique<Linear>(std::nullopt, 10));  // shaped in the pass
  net.initialize(0);
  const Variable x(Tensor::zeros({2, 3, 16, 16}));
  const ModelSummary summary = summarize(net, [&] { net(x); });
  ASSERT_EQ(summary.rows.size(), 4U);
  const auto& conv = summary.rows[0];
  EXPECT_EQ(conv.path, "conv");
  EXPECT_EQ(conv.type, "Conv2d");
  EXPECT_EQ(conv.output, Shape({2, 8, 16, 16}));
  EXPECT_EQ(conv.parameters, 8 * 3 * 9 + 8);
  EXPECT_EQ(conv.flops, 2.0 * 2 * 16 * 16 * 8 * 3 * 9);
  EXPECT_EQ(conv.activation_bytes, 2U * 8 * 16 * 16 * 4);
  const auto& relu = summary.rows[1];
  EXPECT_EQ(relu.path, "");
  EXPECT_EQ(relu.type, "relu");
  EXPECT_EQ(relu.flops, 0);
  const auto& fc = summary.rows[3];
  EXPECT_EQ(fc.path, "fc");
  EXPECT_EQ(fc.parameters, 2048 * 10 + 10);
  EXPECT_EQ(fc.flops, 2.0 * 2 * 2048 * 10);
  EXPECT_EQ(summary.parameters, conv.parameters + fc.parameters);
  EXPECT_EQ(summary.flops(), conv.flops + fc.flops);
  // Nothing depends on whether the graph is recorded.
  const ModelSummary again = summarize(net, [&] {
    const NoGrad no_graph;
    net(x);
  });
  EXPECT_EQ(again.text(), summary.text());
}

TEST(ModelSummary, CountsTiedParametersOnce) {
  Tied net;
  const ModelSummary summary = summarize(net, [&] { net(Variable(Tensor::zeros({1, 6}))); });
  ASSERT_EQ(summary.rows.size(), 3U);
  EXPECT_EQ(summary.rows[0].parameters, 42);
  EXPECT_EQ(summary.rows[2].parameters, 0);
  EXPECT_EQ(summary.rows[2].path, "layer");
  EXPECT_EQ(summary.parameters, 42);
  net.parameters()[0].parameter->freeze_at(Tensor::zeros({6, 6}));
  const ModelSummary frozen = summarize(net, [&] { net(Variable(Tensor::zeros({1, 6}))); });
  EXPECT_EQ(frozen.frozen_parameters, 36);
  EXPECT_EQ(frozen.rows[0].type, "Linear");
}

TEST(ModelSummary, MultipliesMatricesAndAttends) {
  const Sequential none;
  const auto flops = [&](const std::function<void()>& pass) {
    return summarize(none, pass).flops();
  };
  const Variable a(Tensor::zeros({3, 4, 5})), b(Tensor::zeros({3, 5, 6}));
  EXPECT_EQ(flops([&] { F::matmul(a, b); }), 2.0 * 3 * 4 * 5 * 6);
  const Variable qkv(Tensor::zeros({2, 7, 24}));
  EXPECT_EQ(flops([&] { F::self_attention(qkv, {.heads = 2}); }), 2.0 * 2 * 2 * 7 * 7 * 8);
  EXPECT_EQ(flops([&] { F::self_attention(qkv, {.heads = 2, .causal = true}); }),
            2.0 * 2 * 2 * 28 * 8);
}

TEST(ModelSummary, ShowsAFunctionWithSeveralResultsOnce) {
  NStepLSTM net(1, 4, 5, 0);
  net.initialize(0);
  const ModelSummary summary = summarize(net, [&] {
    net(Variable(Tensor::zeros({2, 3, 4})), Tensor::full({2}, 3, DType::int64));
  });
  const auto& rows = summary.rows;
  const auto cell =
      std::find_if(rows.begin(), rows.end(), [](const auto& row) { return row.parameters > 0; });
  ASSERT_NE(cell, rows.end());
  EXPECT_EQ(cell->output, Shape({2, 3, 5}));
  EXPECT_EQ(cell->parameters, 4 * (5 * 4 + 5 * 5 + 2 * 5));
  EXPECT_EQ(cell->flops, 2.0 * 2 * 3 * 4 * (5 * 4 + 5 * 5));
}

TEST(ModelSummary, IsATableWithTotals) {
  Tied net;
  const std::string text = summarize(net, [&] { net(Variable(Tensor::zeros({1, 6}))); }).text();
  EXPECT_THAT(text, HasSubstr("layer  type    output  parameters  FLOPs  activations\n"));
  EXPECT_THAT(text, HasSubstr("  layer  Linear     1x6          42     72         24 B\n"));
  EXPECT_THAT(text, HasSubstr("42 parameters (168 B), 0 of them frozen"));
}

}  // namespace
}  // namespace tasuki::testing
