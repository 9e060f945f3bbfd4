// ModelSummary: what the functions of a forward pass compute, as a table: shapes, parameters,
// operations and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/module.hpp"

namespace tasuki {

struct ModelSummary {
  // A call of a function, in the order of the pass.
  struct Row {
    std::string path;  // of the layer whose parameters it reads; empty: it reads none
    std::string type;  // the layer's class; without a layer the function's name
    Shape output;      // of functions with several results the first one's
    // Of the parameters it reads, those that no row before has: tied weights count once.
    std::int64_t parameters = 0;
    // Multiplications and additions of products (Function::multiply_adds times two). Functions of
    // single elements count as 0.
    double flops = 0;
    // The memory of its results, unless they are another view of its input (reshape). Without
    // a backward pass less is needed at once.
    std::size_t activation_bytes = 0;
  };
  std::vector<Row> rows;
  std::int64_t parameters = 0;         // of the whole model, used or not
  std::int64_t frozen_parameters = 0;  // of these
  std::size_t buffer_bytes = 0;        // running statistics

  double flops() const;
  std::size_t activation_bytes() const;
  // The rows and the totals under a line of titles, with ends of lines.
  std::string text() const;
};

// Runs `pass`, a forward pass of the model in this thread, and watches its functions. Whether the
// graph is recorded makes no difference.
//   std::cout << summarize(model, [&] { model(Variable(example)); }).text();
ModelSummary summarize(const Module& model, const std::function<void()>& pass);

}  // namespace tasuki
