// Translates functions of sequences: attention and recurrent layers.
#pragma once

#include <map>

#include "saving/onnx/graph_builder.hpp"

namespace tasuki::onnx_graph {

class SequenceTranslation : public GraphBuilder {
 protected:
  using GraphBuilder::GraphBuilder;

  void self_attention(const Call& call);
  void attention(const Call& call);
  void recurrent(const Call& call);
  // One of several results of a call.
  void take_result(const Call& call);

 private:
  // softmax(scale q k^T + mask) v, for each head.
  void attend(const Call& call, const Names& qkv, std::int64_t queries, std::int64_t keys);
  std::string gates(const Call& call, std::size_t first, const std::vector<std::size_t>& order);
  std::string with_direction(const std::string& name);
  // Whether all sequences are as long as the array, in both passes.
  bool are_whole(const Call& call);

  std::map<Key, Names> results_;  // of functions with several
};

}  // namespace tasuki::onnx_graph
