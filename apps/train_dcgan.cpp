// Trains a DCGAN on images, data-parallel over MPI.
//
//   build/apps/tasuki-run -np 2 build/apps/train_dcgan --dataset fashion-mnist

#include <optional>

#include "apps/dcgan/samples.hpp"
#include "dataset/catalog.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/random.hpp"
#include "program/training_program.hpp"

namespace {

using namespace tasuki;

// Batches of an evaluation get different random numbers, the same in every evaluation.
LossFunction loss_of(Dcgan& gan, const DcganSettings& settings, std::uint64_t seed) {
  const auto keys = std::make_shared<RandomKeys>(seed);
  return [&gan, settings, keys](const Batch& batch, Observation& report) {
    std::optional<RandomScope> scope;
    if (!TrainingMode::is_training()) {
      keys->follow(0, batch.ids());
      scope.emplace(*keys);
    }
    const DcganLosses losses = dcgan_losses(gan, settings, batch["x"].to(gan.device()));
    report.add_mean("gen/loss", losses.gen.value(), batch.size());
    report.add_mean("dis/loss", losses.dis.value(), batch.size());
    return losses.dis + losses.gen;
  };
}

// ChainerMN's DCGANUpdater: one optimizer for each network.
LossesFunction losses_of(Dcgan& gan, const DcganSettings& settings) {
  return [&gan, settings](const Batch& batch, Observation&) {
    const DcganLosses found = dcgan_losses(gan, settings, batch["x"].to(gan.device()));
    return std::vector{found.gen, found.dis};
  };
}

void add_network_flags(program::Options& flags, DcganSettings& settings) {
  flags
      .add("n-hidden,n", settings.hidden, {1, 1 << 16}, "N",
           "size of the random vector from which an image is generated")
      .in_short("size of a generator's input");
  flags
      .add("channels", settings.channels, {8, 1 << 14}, "N",
           "channels of the smallest images inside the networks")
      .in_short("channels of the smallest images");
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program(
      "train_dcgan", "trains a DCGAN on images, over MPI",
      "tasuki-run -np 2 train_dcgan --dataset fashion-mnist --snapshot-interval 500");
  program.settings.batchsize = 50;
  program.settings.epoch = 1000;
  program.settings.lr = 2e-4;
  program.settings.weight_decay = 1e-4;
  program.settings.log_every = 100;

  DcganSettings model_settings;
  dcgan::SampleSettings samples;
  std::string generator, discriminator;
  program.dataset = "cifar10";
  program.flags.add("dataset,i", program.dataset, dataset_names(), "NAME",
                    "the images; `images`: JPEG and PNG files in the folder --data, in "
                    "train/<class>/ and test/<class>/");
  program.flags
      .add("image-size", program.image_side, {8, 1024}, "N",
           "height and width in pixels to which a folder's images are scaled")
      .in_short("side length of a folder's images");
  add_network_flags(program.flags, model_settings);
  program.flags.add("gen-model", generator, "FILE",
                    "initial weights of the generator (a model file); empty: drawn from --seed");
  program.flags.add(
      "dis-model,d", discriminator, "FILE",
      "initial weights of the discriminator (a model file); empty: drawn from --seed");
  program.flags
      .add("snapshot-interval", samples.interval, {1, 1 << 30}, "N",
           "iterations between grids of generated images, OUT/preview/image*.png, and "
           "weights for --gen-model and --dis-model, OUT/gen_iter_N.npz and dis_iter_N.npz")
      .in_short("iterations between image grids");
  program.flags.add("display-interval", program.settings.log_every, "epoch", {1, 1 << 30}, "N",
                    "the same as --log-every");
  program.flags.add("samples", samples.samples, {0, 1 << 20}, "N",
                    "generated images to write at the end: OUT/samples-idx3-ubyte, or, if they "
                    "have colours, PNG files in OUT/samples");
  program.columns = {"epoch",
                     "main/dis/loss",
                     "main/gen/loss",
                     "validation/main/dis/loss",
                     "validation/main/gen/loss",
                     "elapsed_time"};

  program.create_optimizer = [] {
    auto optimizer = create_optimizer("adam");
    optimizer->set("beta1", 0.5);
    return optimizer;
  };
  Dcgan* gan = nullptr;
  program.create_model = [&](const DatasetHeader& data) {
    model_settings.image = data.field("x").shape;
    auto model = std::make_unique<Dcgan>(model_settings);
    Dcgan& made = *model;
    if (gan == nullptr) gan = &made;
    const auto seed = static_cast<std::uint64_t>(program.settings.seed);
    model->initialize(seed);
    return TrainingModel{.model = std::move(model),
                         .loss = loss_of(made, model_settings, seed),
                         .parts = {{"gen", made.gen, generator}, {"dis", made.dis, discriminator}},
                         .losses = losses_of(made, model_settings)};
  };
  program.extend = [&](Trainer& trainer) {
    samples.model = model_settings;
    samples.seed = static_cast<std::uint64_t>(program.settings.seed);
    trainer.extend(dcgan::write_samples(*gan, samples));
  };
  program.banner = [&] {
    return program::BannerLines{{"Generator", fmt::format("{} numbers to {}", model_settings.hidden,
                                                          model_settings.image.text())},
                                {"Channels", fmt::format("{}", model_settings.channels)}};
  };
  return program.run(argc, argv);
}
