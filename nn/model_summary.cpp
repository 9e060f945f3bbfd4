#include "nn/model_summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "nn/function.hpp"
#include "nn/node.hpp"
#include "nn/several_results.hpp"

namespace tasuki {
namespace {

// "1.2 M"; `units` from 1 on, each a thousand times the one before.
std::string scaled(double value, const std::array<const char*, 5>& units) {
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < units.size(); ++unit) value /= 1000;
  const std::string number = fmt::format("{:.{}f}", value, unit == 0 ? 0 : 1);
  return *units[unit] == 0 ? number : number + ' ' + units[unit];
}

std::string bytes_text(std::size_t bytes) {
  return scaled(static_cast<double>(bytes), {"B", "kB", "MB", "GB", "TB"});
}

std::string flops_text(double flops) {
  return scaled(flops, {"", "k", "M", "G", "T"});
}

// "predictor/l1" for "predictor/l1/W".
std::string folder_of(const std::string& path) {
  const std::size_t end = path.rfind('/');
  return end == std::string::npos ? "" : path.substr(0, end);
}

// The path of the module that has both.
std::string common_folder(const std::string& a, const std::string& b) {
  std::string common = a;
  while (!common.empty() && b != common && !b.starts_with(common + '/')) common = folder_of(common);
  return common;
}

class Watcher final : public FunctionHook {
 public:
  explicit Watcher(ModelSummary& summary) : summary_(summary) {}

  void called(const Function& function, const std::vector<Variable>& inputs,
              const Variable& result) override {
    if (takes_result(function, inputs, result)) return;
    Call call;
    call.row.type = function.name();
    call.row.output = result.shape();
    call.row.flops = 2 * function.multiply_adds(inputs, result.value());
    call.row.activation_bytes = memory_of(result, inputs);
    for (const Variable& input : inputs)
      if (input.node() && input.node()->parameter != nullptr)
        call.parameters.push_back(input.node()->parameter);
    // The vertex of a function with several results has only a scalar, which is none of them.
    if (result.shape().rank() == 0) call.vertex = result;
    calls_.push_back(std::move(call));
  }

  // Once the parameters have their shapes.
  void finish(const Module& model) {
    std::map<const Parameter*, std::string> path_of;
    for (const auto& [path, parameter] : model.all_parameters()) path_of.emplace(parameter, path);
    std::set<const Parameter*> counted;
    for (Call& call : calls_) {
      bool is_first = true;
      std::set<std::string> layers;
      for (const Parameter* parameter : call.parameters) {
        if (counted.insert(parameter).second) call.row.parameters += parameter->shape().count();
        const auto found = path_of.find(parameter);
        const std::string folder = found == path_of.end() ? "" : folder_of(found->second);
        call.row.path = is_first ? folder : common_folder(call.row.path, folder);
        is_first = false;
        layers.insert(parameter->layer());
      }
      if (layers.size() == 1 && !layers.begin()->empty()) call.row.type = *layers.begin();
      summary_.rows.push_back(std::move(call.row));
    }
  }

 private:
  struct Call {
    ModelSummary::Row row;
    std::vector<const Parameter*> parameters;
    Variable vertex;  // of which results may follow
    bool has_results = false;
  };

  static std::size_t memory_of(const Variable& result, const std::vector<Variable>& inputs) {
    const auto shares = [&](const Variable& input) {
      return input.defined() && input.value().raw() == result.value().raw();
    };
    return std::ranges::any_of(inputs, shares) ? 0 : result.value().bytes();
  }

  // Whether this is a result of a call that has several.
  bool takes_result(const Function& function, const std::vector<Variable>& inputs,
                    const Variable& result) {
    if (dynamic_cast<const OneOfResults*>(&function) == nullptr) return false;
    const auto same = [&](const Call& call) {
      return call.vertex.defined() && call.vertex.value().raw() == inputs[0].value().raw();
    };
    const auto call = std::find_if(calls_.rbegin(), calls_.rend(), same);
    if (call == calls_.rend()) return false;
    if (!std::exchange(call->has_results, true)) {
      call->row.output = result.shape();
      call->row.activation_bytes = 0;
    }
    call->row.activation_bytes += result.value().bytes();
    return true;
  }

  ModelSummary& summary_;
  std::vector<Call> calls_;
};

}  // namespace

double ModelSummary::flops() const {
  double sum = 0;
  for (const Row& row : rows) sum += row.flops;
  return sum;
}

std::size_t ModelSummary::activation_bytes() const {
  std::size_t sum = 0;
  for (const Row& row : rows) sum += row.activation_bytes;
  return sum;
}

std::string ModelSummary::text() const {
  using Line = std::array<std::string, 6>;
  std::vector<Line> lines = {{"layer", "type", "output", "parameters", "FLOPs", "activations"}};
  for (const Row& row : rows)
    lines.push_back({row.path, row.type, row.output.rank() == 0 ? "scalar" : row.output.text(),
                     row.parameters > 0 ? std::to_string(row.parameters) : "",
                     row.flops > 0 ? flops_text(row.flops) : "", bytes_text(row.activation_bytes)});
  lines.push_back({"all", "", "", std::to_string(parameters), flops_text(flops()),
                   bytes_text(activation_bytes())});
  std::array<std::size_t, 6> widths{};
  for (const Line& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const Line& line : lines) {
    std::string written;
    for (std::size_t i = 0; i < line.size(); ++i)  // texts to the left, numbers to the right
      written += i < 2 ? fmt::format("  {:<{}}", line[i], widths[i])
                       : fmt::format("  {:>{}}", line[i], widths[i]);
    text += written.erase(written.find_last_not_of(' ') + 1) + '\n';
  }
  const auto parameter_bytes = static_cast<std::size_t>(parameters) * sizeof(float);
  return text + fmt::format("  {} parameters ({}), {} of them frozen; running statistics: {}\n",
                            parameters, bytes_text(parameter_bytes), frozen_parameters,
                            bytes_text(buffer_bytes));
}

ModelSummary summarize(const Module& model, const std::function<void()>& pass) {
  ModelSummary summary;
  {
    Watcher watcher(summary);
    pass();
    watcher.finish(model);
  }
  std::set<const Parameter*> counted;
  for (const auto& [path, parameter] : model.parameters()) {
    if (!counted.insert(parameter).second) continue;
    summary.parameters += parameter->shape().count();
    if (parameter->is_frozen()) summary.frozen_parameters += parameter->shape().count();
  }
  for (const auto& [path, buffer] : model.buffers()) summary.buffer_bytes += buffer->bytes();
  return summary;
}

}  // namespace tasuki
