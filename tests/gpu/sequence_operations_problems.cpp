#include <optional>

#include "problems.hpp"
#include "tasuki/tensor/sequence_operations.hpp"

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

}  // namespace

void add_sequence_operations_problems(Problems& problems) {
  for (const DType type : {DType::int32, DType::int64})
    for (const bool accumulate : {false, true})
      for (const auto& [ids, rows, columns] :
           {std::array<std::int64_t, 3>{70, 9, 40}, {5, 100, 3}, {0, 4, 4}})
        problems.push_back(
            {fmt::format("sequences: embed/{} of {}x{} {}{}", ids, rows, columns, name_of(type),
                         accumulate ? " added" : ""),
             [=](Side& side) { return embed(side, ids, rows, columns, type, accumulate); }});
}

}  // namespace tasuki::testing
