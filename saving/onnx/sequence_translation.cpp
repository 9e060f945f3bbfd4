#include "saving/onnx/sequence_translation.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki::onnx_graph {
namespace {

// ONNX's order of the gates (i, o, f, c; z, r, h) in ours (i, f, c, o; r, z, h).
std::vector<std::size_t> gate_order(bool is_lstm) {
  if (is_lstm) return {0, 3, 1, 2};
  return {1, 0, 2};
}

}  // namespace

void SequenceTranslation::self_attention(const Call& call) {
  const std::int64_t width = call.result.shape()[2];
  const std::string qkv = name_of_input(call, 0), axes = constant(node_ + "/axes", List{2});
  Names parts;
  for (std::int64_t i = 0; i < 3; ++i)
    parts.push_back(emit("Slice", {qkv, constant(node_ + "/begin", List{i * width}),
                                   constant(node_ + "/end", List{(i + 1) * width}), axes}));
  const std::int64_t length = call.result.shape()[1];
  attend(call, parts, length, length);
}

void SequenceTranslation::attention(const Call& call) {
  attend(call, {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
         call.inputs[0].shape()[1], call.inputs[1].shape()[1]);
}

void SequenceTranslation::attend(const Call& call, const Names& qkv, std::int64_t queries,
                                 std::int64_t keys) {
  if (varies(1)) fail(ErrorKind::usage, "ONNX: {} is exported for texts of one length", call.name);
  const std::int64_t width = call.result.shape()[2], heads = call.settings.number("heads");
  const std::string split = constant(node_ + "/heads", List{0, -1, heads, width / heads});
  const auto by_head = [&](std::size_t i, const List& order) {
    return emit("Transpose", {emit("Reshape", {qkv[i], split})}, {{"perm", order}});
  };
  std::string scores = emit("MatMul", {by_head(0, {0, 2, 1, 3}), by_head(1, {0, 2, 3, 1})});
  scores = emit("Mul", {scores, constant(node_ + "/scale", scalar(call.settings.real("scale")))});
  constexpr double unseen = -1e30;
  if (call.settings.number("causal") != 0) {
    const std::string all = emit("Expand", {constant(node_ + "/unseen", scalar(unseen)),
                                            constant(node_ + "/pairs", List{queries, keys})});
    const Tensor one = Tensor::full({}, 1, DType::int64);
    scores = emit("Add", {scores, emit("Trilu", {all, constant(node_ + "/above", one)},
                                       {{"upper", std::int64_t{1}}})});
  }
  std::string seen;  // N x 1 x 1 x keys
  if (call.settings.has("lengths")) {
    const Tensor numbers = Tensor::empty({1, 1, 1, keys}, DType::int64);
    for (std::int64_t i = 0; i < keys; ++i) numbers.data<std::int64_t>()[i] = i;
    const std::string lengths = emit(
        "Unsqueeze", {name_of_setting(call, "lengths"), constant(node_ + "/axes", List{1, 2, 3})});
    seen = emit("Less", {constant(node_ + "/places", numbers), lengths});
    scores = emit("Where", {seen, scores, constant(node_ + "/unseen", scalar(unseen))});
  }
  std::string weights = emit("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  // Queries without any key, and padding among them if there is one for each key, give zeros.
  if (!seen.empty()) weights = emit("Where", {seen, weights, constant(node_ + "/zero", scalar(0))});
  const std::string y = emit("MatMul", {weights, by_head(2, {0, 2, 1, 3})});
  const std::string rows = emit("Transpose", {y}, {{"perm", List{0, 2, 1, 3}}});
  const std::string joined =
      emit("Reshape", {rows, constant(node_ + "/width", List{0, -1, width})});
  if (seen.empty() || call.settings.number("causal") == 0) return result("Identity", {joined});
  const std::string of_queries =
      emit("Reshape", {seen, constant(node_ + "/queries", List{0, queries, 1})});
  result("Where", {of_queries, joined, constant(node_ + "/zero", scalar(0))});
}

std::string SequenceTranslation::gates(const Call& call, std::size_t first,
                                       const std::vector<std::size_t>& order) {
  Names parts;
  for (const std::size_t gate : order) parts.push_back(name_of_input(call, first + gate));
  return emit("Concat", parts, {{"axis", std::int64_t{0}}});
}

std::string SequenceTranslation::with_direction(const std::string& name) {
  return emit("Unsqueeze", {name, constant(node_ + "/axes", List{0})});
}

bool SequenceTranslation::are_whole(const Call& call) {
  if (is_known(call.settings.tensor("lengths"))) return false;
  const auto is_whole = [](const Call& each) {
    const Tensor& lengths = each.settings.tensor("lengths");
    const std::span<const std::int64_t> all(lengths.data<std::int64_t>(),
                                            static_cast<std::size_t>(lengths.count()));
    return std::ranges::count(all, each.inputs[0].shape()[1]) == std::ssize(all);
  };
  return is_whole(call) && is_whole(larger_call());
}

void SequenceTranslation::recurrent(const Call& call) {
  const bool is_lstm = call.settings.number("is_lstm") != 0;
  const std::vector<std::size_t> order = gate_order(is_lstm);
  const std::size_t count = order.size();
  const std::int64_t units = call.inputs[2].shape()[0];
  const std::string x = emit("Transpose", {name_of_input(call, 0)}, {{"perm", List{1, 0, 2}}});
  const std::string w = with_direction(gates(call, 2, order));
  const std::string r = with_direction(gates(call, 2 + count, order));
  const std::string b = with_direction(
      emit("Concat", {gates(call, 2 + 2 * count, order), gates(call, 2 + 3 * count, order)},
           {{"axis", std::int64_t{0}}}));
  // Not needed where each sequence is as long as the array.
  const std::string lengths =
      are_whole(call) ? ""
                      : emit("Cast", {name_of_setting(call, "lengths")}, {{"to", std::int64_t{6}}});
  Names inputs = {x, w, r, b, lengths};
  const std::int64_t states = is_lstm ? 2 : 1;
  if (const std::string before = name_of_input(call, 1); !before.empty())
    for (std::int64_t s = 0; s < states; ++s) {
      const std::string one = emit(
          "Slice", {before, constant(node_ + "/begin", List{s}),
                    constant(node_ + "/end", List{s + 1}), constant(node_ + "/axes", List{1})});
      inputs.push_back(emit("Transpose", {one}, {{"perm", List{1, 0, 2}}}));
    }
  std::vector<Attribute> attributes = {
      {"hidden_size", units},
      {"direction", call.settings.number("is_reversed") != 0 ? "reverse" : "forward"}};
  if (!is_lstm) attributes.emplace_back("linear_before_reset", std::int64_t{1});
  Names outputs = {node_ + "/y", node_ + "/h"};
  if (is_lstm) outputs.push_back(node_ + "/c");
  graph_.nodes.push_back({is_lstm ? "LSTM" : "GRU", node_, inputs, outputs, std::move(attributes)});

  const std::string rows = emit("Squeeze", {outputs[0], constant(node_ + "/axes", List{1})});
  Names last;
  for (std::size_t s = 1; s < outputs.size(); ++s)
    last.push_back(emit("Transpose", {outputs[s]}, {{"perm", List{1, 0, 2}}}));
  results_[key_of(call.result)] = {
      emit("Transpose", {rows}, {{"perm", List{1, 0, 2}}}),
      last.size() == 1 ? last[0] : emit("Concat", last, {{"axis", std::int64_t{1}}})};
}

void SequenceTranslation::take_result(const Call& call) {
  const auto found = results_.find(key_of(call.inputs.at(0)));
  if (found == results_.end())
    fail(ErrorKind::usage, "ONNX: the function {} has no translation", call.name);
  know(call.result, found->second.at(static_cast<std::size_t>(call.settings.number("result"))),
       false);
}

}  // namespace tasuki::onnx_graph
