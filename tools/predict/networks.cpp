#include "tools/predict/networks.hpp"

#include "core/error.hpp"

#include "models/catalog.hpp"
#include "models/mlp.hpp"

namespace tasuki::predict {
namespace {

const char* const mlp = "mlp";

// The size of an axis of an array in the file.
std::optional<std::int64_t> size_in(const TrainedModel& trained, const std::string& name,
                                    int axis) {
  constexpr std::int64_t most = 1 << 20;  // of a flag that gives it; a file may say anything
  const auto found = trained.shapes.find(name);
  if (found == trained.shapes.end() || axis >= found->second.rank()) return std::nullopt;
  const std::int64_t size = found->second[axis];
  if (size < 1 || size > most)
    fail_everywhere(ErrorKind::data, "{}: {} is {}; expected sizes from 1 to {}",
                    trained.file.string(), name, found->second.text(), most);
  return size;
}

}  // namespace

std::vector<std::string> image_networks() {
  std::vector<std::string> names = {mlp};
  for (const ModelKind& kind : model_kinds()) names.push_back(kind.name);
  return names;
}

std::optional<std::string> image_network_of(const FinishedRun& run) {
  if (run.program.starts_with("train_mnist")) return mlp;
  if (run.program == "train_cifar_channel_parallel") return "vgg16_bn";
  if (run.program == "train_lenet") return "lenet";
  if (run.program == "train_cifar" || run.program == "train_imagenet") return run.flag("arch");
  return std::nullopt;
}

std::optional<Shape> example_shape(const std::string& network, const TrainedModel& trained) {
  if (network == "lenet") return Shape{1, 28, 28};
  if (network == mlp) return Shape{size_in(trained, "l1/W", 1).value_or(784)};
  if (const ModelKind& kind = find_model(network); kind.is_published && !trained.run.example)
    return Shape{3, kind.insize, kind.insize};
  return trained.run.example;
}

std::optional<std::int64_t> classes_in(const TrainedModel& trained, const std::string& network) {
  std::optional<Shape> example = example_shape(network, trained);
  if (!example) {
    const std::int64_t side = find_model(network).insize;
    example = Shape{3, side, side};
  }
  const auto with = [&](std::int64_t classes) {
    return create_image_network(network, trained, *example, classes, {});
  };
  const auto one = with(1), two = with(2);
  const auto of_one = one->parameters(), of_two = two->parameters();
  for (std::size_t i = 0; i < of_one.size(); ++i) {
    const Shape &small = of_one[i].parameter->shape(), &large = of_two[i].parameter->shape();
    for (int axis = 0; axis < small.rank(); ++axis)
      if (small[axis] != large[axis]) return size_in(trained, of_one[i].path, axis);
  }
  return std::nullopt;
}

std::unique_ptr<Layer> create_image_network(const std::string& network, const TrainedModel& trained,
                                            const Shape& example, std::int64_t classes,
                                            std::optional<std::int64_t> units) {
  if (network != mlp) return create_model(network, {classes, example});
  const std::int64_t hidden = units.value_or(size_in(trained, "l1/W", 0).value_or(1000));
  return std::make_unique<MLP>(example.count(), hidden, classes);
}

}  // namespace tasuki::predict
