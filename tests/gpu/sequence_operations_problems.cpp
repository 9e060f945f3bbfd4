#include <memory>
#include <optional>
#include <vector>

#include "problems.hpp"
#include "tensor/sequence_operations.hpp"

namespace tasuki::testing {
namespace {

// Labels as ids: some are -1, which is ignored.
Results embed(Side& side, std::int64_t ids, std::int64_t rows, std::int64_t columns, DType type,
              bool accumulate) {
  SequenceOperations& operations = side.backend().sequences();
  const Tensor numbers = side.labels(ids, rows).to(type);
  const Tensor w = side.activations({rows, columns}), dy = side.activations({ids, columns});
  const Tensor dw = side.destination({rows, columns}, accumulate);
  operations.embed_backward(numbers, dy, -1, dw, accumulate);
  return {{"y", operations.embed(w, numbers, -1)}, {"dw", dw}};
}

struct RecurrentCase {
  const char* name;
  Recurrence kind;
  std::vector<std::int64_t> lengths;
  std::int64_t steps, inputs, units;
  bool has_states = false, is_reversed = false, accumulate = false;
};

Results recurrent(Side& side, const RecurrentCase& test) {
  SequenceOperations& operations = side.backend().sequences();
  const auto items = static_cast<std::int64_t>(test.lengths.size());
  const std::int64_t rows = gates_of(test.kind) * test.units, states = states_of(test.kind);
  const Tensor lengths =
      Tensor::from(std::span<const std::int64_t>(test.lengths), {items}).to(side.device());
  const Tensor x = side.activations({items, test.steps, test.inputs});
  const Tensor first = test.has_states ? side.activations({items, states, test.units}) : Tensor();
  const RecurrentLayer layer{test.kind,
                             test.is_reversed,
                             side.weights({rows, test.inputs}),
                             side.weights({rows, test.units}),
                             side.parameters({rows}),
                             side.parameters({rows}),
                             nullptr};
  const SequenceOperations::Outputs upstream{
      side.activations({items, test.steps, test.units}),
      test.has_states ? side.activations({items, states, test.units}) : Tensor()};
  const auto destination = [&](const Shape& shape) {
    return RecurrentGradients::Destination{side.destination(shape, test.accumulate),
                                           test.accumulate};
  };
  const RecurrentGradients gradients{destination(layer.wx.shape()), destination(layer.wh.shape()),
                                     destination({rows}), destination({rows})};
  std::shared_ptr<Workspace> workspace;
  const auto [y, last] = operations.recurrent(layer, x, lengths, first, &workspace);
  const auto inputs = operations.recurrent_backward(layer, upstream, *workspace, gradients);
  return {{"y", y},
          {"states", last},
          {"dx", inputs.dx},
          {"dstates", inputs.dstates},
          {"dwx", gradients.wx.tensor},
          {"dwh", gradients.wh.tensor},
          {"dbx", gradients.bx.tensor},
          {"dbh", gradients.bh.tensor}};
}

}  // namespace

void add_sequence_operations_problems(Problems& problems) {
  for (const DType type : {DType::int32, DType::int64})
    for (const bool accumulate : {false, true})
      for (const auto& [ids, rows, columns] :
           {std::array<std::int64_t, 3>{70, 9, 40},
            {5, 100, 3},
            {0, 4, 4},
            {1000, 3, 33},     // each id occurs in many pieces of 64
            {600, 70000, 5}})  // ids of three bytes
        problems.push_back({fmt::format("sequences: embed/{} of {}x{} {}{}", ids, rows, columns,
                                        name_of(type), accumulate ? " added" : ""),
                            [=, ids = ids, rows = rows, columns = columns](Side& side) {
                              return embed(side, ids, rows, columns, type, accumulate);
                            }});
  for (const Recurrence kind : {Recurrence::lstm, Recurrence::gru})
    for (const RecurrentCase& test :
         {RecurrentCase{"one step", kind, {1, 1, 1}, 1, 5, 8},
          RecurrentCase{"ragged", kind, {2, 0, 5, 1, 3}, 6, 7, 9, true, false, true},
          RecurrentCase{"reversed", kind, {4, 2, 4}, 4, 8, 16, false, true, false},
          RecurrentCase{"no examples", kind, {}, 3, 4, 4},
          RecurrentCase{"no steps", kind, {0, 0}, 0, 4, 4, true}})
      problems.push_back(
          {fmt::format("sequences: {}/{}", kind == Recurrence::lstm ? "lstm" : "gru", test.name),
           [=](Side& side) { return recurrent(side, test); }});
}

}  // namespace tasuki::testing
