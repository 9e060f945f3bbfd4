#include "optimizer/module_exchange.hpp"

#include <set>

#include "communicator/agreement.hpp"

namespace tasuki {
namespace {

// Parameters that have a shape; tied ones (the same under several paths) once.
std::vector<Parameter*> distinct_parameters(const Module& model) {
  std::vector<Parameter*> distinct;
  std::set<const Parameter*> seen;
  for (const auto& [path, parameter] : model.parameters())
    if (seen.insert(parameter).second) distinct.push_back(parameter);
  return distinct;
}

std::vector<Parameter*> distinct_with_gradients(const Module& model) {
  std::vector<Parameter*> distinct = distinct_parameters(model);
  std::erase_if(distinct, [](const Parameter* parameter) { return parameter->is_frozen(); });
  return distinct;
}

}  // namespace

void mean_gradients(Communicator& communicator, const Module& model, double divisor) {
  const std::vector<Parameter*> parameters = distinct_with_gradients(model);
  std::vector<GradientView::Segment> segments;
  std::int64_t count = 0;
  for (const Parameter* parameter : parameters) {
    segments.push_back({count, parameter->shape().count()});
    count += segments.back().count;
  }
  const Tensor all = Tensor::empty({count}, DType::float32, model.device());
  const auto part = [&](std::size_t i) {
    return all.slice(segments[i].offset, segments[i].offset + segments[i].count);
  };
  const auto gradient = [&](std::size_t i) {
    return parameters[i]->grad().reshape({segments[i].count});
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i]->fill_missing_grad();
    part(i).copy_from(gradient(i));
  }
  const double count_of_mean = divisor == 0 ? communicator.size() : divisor;
  communicator.mean_gradients(
      {.arena = all, .segments = segments, .wire_scale_hint = count_of_mean}, count_of_mean);
  for (std::size_t i = 0; i < parameters.size(); ++i) gradient(i).copy_from(part(i));
}

void bcast_data(Communicator& communicator, const Module& model) {
  std::vector<std::string> lines;
  for (const auto& [path, parameter] : model.all_parameters())
    lines.push_back(fmt::format("parameter {} {}", path, parameter->shape_text()));
  for (const auto& [path, tensor] : model.buffers())
    lines.push_back(
        fmt::format("buffer {} {} {}", path, tensor->shape().text(), name_of(tensor->dtype())));
  check_agreement(communicator, lines, "bcast_data needs the same model on all ranks");
  for (const Parameter* parameter : distinct_parameters(model)) {
    communicator.bcast_data(parameter->value());
    parameter->value_changed();
  }
  for (const auto& [path, tensor] : model.buffers()) communicator.bcast_data(*tensor);
}

}  // namespace tasuki
