// Images from the generators of train_dcgan.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/dcgan/samples.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "saving/onnx/export_onnx.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/task.hpp"

namespace tasuki::predict {
namespace {

using nlohmann::ordered_json;

const char* const dcgan_network = "dcgan";

// A generator's settings, from the shapes of its weights.
DcganSettings settings_of(const TrainedModel& trained) {
  const auto shape = [&](const std::string& name, int axes) {
    const auto found = trained.shapes.find(name);
    if (found == trained.shapes.end() || found->second.rank() != axes || found->second.count() == 0)
      fail_everywhere(ErrorKind::data,
                      "{}: expected the weights of a generator of train_dcgan (a snapshot, or "
                      "gen_iter_N.npz), found no {} with {} axes",
                      trained.file.string(), name, axes);
    return found->second;
  };
  const auto layer = [](int number) { return fmt::format("dc{}/W", number); };
  int layers = 1;
  constexpr int most_layers = 16;  // each doubles the side
  while (layers < most_layers && trained.shapes.contains(layer(layers + 1))) ++layers;
  DcganSettings settings;
  settings.hidden = shape("l0/W", 2)[1];
  settings.channels = shape(layer(1), 4)[0];
  const std::int64_t pixels = shape("l0/W", 2)[0] / settings.channels;
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(pixels))) << (layers - 1);
  settings.image = {shape(layer(layers), 4)[1], side, side};
  return settings;
}

class Generation final : public Task {
 public:
  std::vector<std::string> networks() const override { return {dcgan_network}; }
  std::optional<std::string> network_of(const FinishedRun& run) const override {
    if (run.program == "train_dcgan") return dcgan_network;
    return std::nullopt;
  }

  void add_network_flags(program::Options&) override {}

  std::unique_ptr<Module> create_network(const TaskContext& context) const override {
    return std::make_unique<DcganGenerator>(settings_of(context.trained));
  }

  std::vector<FileContents> encode_onnx(const TaskContext& context, Module& model,
                                        const std::filesystem::path& file) const override {
    const Tensor noise = Tensor::full({1, settings_of(context.trained).hidden}, 0.5);
    return {{file, tasuki::encode_onnx(dynamic_cast<Layer&>(model), noise, file,
                                       {{"network", context.network}})}};
  }

  void add_flags(program::Options& options) override {
    options.group("Generated images (of train_dcgan)", program::OnScreen::no);
    options
        .add("samples", samples_, {1, 1 << 20}, "N",
             "images to generate and write to --out: FILE.png (a grid), FILE-idx3-ubyte (grey "
             "images in MNIST's format) or a new folder (one PNG file each)")
        .common("images to generate");
  }

  void run(const TaskContext& context) override {
    if (!context.settings.out)
      fail_everywhere(ErrorKind::usage,
                      "images need a place: give --out FILE.png, --out FILE-idx3-ubyte (grey "
                      "images) or --out FOLDER");
    if (!context.settings.inputs.empty())
      fail_everywhere(ErrorKind::usage, "{}: a generator takes no input; leave it out",
                      context.settings.inputs.front());
    if (context.settings.examples)
      fail_everywhere(ErrorKind::usage, "--examples: a generator has none; give --samples");
    const DcganSettings settings = settings_of(context.trained);
    DcganGenerator generator(settings);
    load_weights(context.trained, generator, context.communicator);
    generator.to(context.device);
    run_on_root(context.communicator, 0, [&] {
      const Tensor images = dcgan::generate(generator, settings, seed_of(context), samples_);
      dcgan::write_images(*context.settings.out, images);
      PredictionSettings only_summary = context.settings;
      only_summary.out.reset();
      only_summary.quiet = true;
      const ordered_json summary = {{"images", samples_}, {"file", *context.settings.out}};
      deliver(only_summary,
              Report{.table = "",
                     .csv = "",
                     .json = "",
                     .summary = fmt::format("{} images of {} in {}\n", samples_,
                                            settings.image.text(), *context.settings.out),
                     .json_summary = json_line({{"summary", summary}})});
      return Bytes{};
    });
  }

 private:
  static std::uint64_t seed_of(const TaskContext& context) {
    return static_cast<std::uint64_t>(
        context.settings.seed.value_or(context.trained.run.number("seed", 0)));
  }

  std::int64_t samples_ = 100;
};

}  // namespace

std::unique_ptr<Task> create_generation() {
  return std::make_unique<Generation>();
}

}  // namespace tasuki::predict
