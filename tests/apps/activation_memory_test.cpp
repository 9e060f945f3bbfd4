// What examples add to the memory of a step until its backward pass, as --dry-run says: with
// --dtype bf16, in every program, at most 0.6 of float32's bytes, or 0.65 where the processor does
// not multiply bfloat16, so that convolutions are computed in float32.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tensor/cpu/rounded_product.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/image_files.hpp"
#include "tests/support/pictures.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using Flags = std::vector<std::string>;

class ActivationMemory : public TrainingJob {
 protected:
  ActivationMemory() : TrainingJob({}) {}

  // Megabytes of so many examples more: the filters that convolutions keep in their own order, of
  // float32 alone, are the same for any number.
  static double activations(int ranks, const Flags& words, int examples) {
    const auto of_step = [&](int batch) {
      const Finished job =
          run_program(mpirun(ranks, with(words, {"--batchsize", std::to_string(batch), "--threads",
                                                 "1", "--dry-run"})),
                      100);
      EXPECT_EQ(job.exit_code, 0) << job.all();
      const std::size_t end = job.out.find(" MB activations");
      if (end == std::string::npos) {
        ADD_FAILURE() << job.all();
        return 0.0;
      }
      return std::stod(job.out.substr(job.out.rfind(' ', end - 1) + 1));
    };
    return of_step(2 * examples) - of_step(examples);
  }
  static void expect_less(int ranks, const Flags& words, int examples) {
    const double floats = activations(ranks, words, examples);
    const double rounded = activations(ranks, with(words, {"--dtype", "bf16"}), examples);
    EXPECT_GE(floats, 5) << words[0] << ": too few for one digit behind the point";
    EXPECT_LE(rounded, (has_bfloat16_products() ? 0.6 : 0.65) * floats) << words[0];
    RecordProperty(std::filesystem::path(words[0]).filename(),
                   fmt::format("{:.1f} {:.1f}", floats, rounded));
  }
};

TEST_F(ActivationMemory, OfPerceptronsIsHalved) {
  write_digits(data, 2000, 10);
  for (const std::string& program : {TRAIN_MNIST, TRAIN_MNIST_DATA_PARALLEL})
    expect_less(1, {program, "--data", data}, 1000);
  for (const std::string& program : {TRAIN_MNIST_MODEL_PARALLEL, TRAIN_MNIST_DUAL_PARALLEL})
    expect_less(2, {program, "--data", data}, 1000);
}

// With one algorithm of convolutions for both types: in float32, images side by side need no padded
// channels.
TEST_F(ActivationMemory, OfConvnetsIsHalved) {
  write_digits(folder / "digits", 128, 10);
  write_pictures(folder / "pictures", 40, 10);
  const Flags pictures = {"--data", folder / "pictures", "--conv", "direct"};
  expect_less(1, {TRAIN_LENET, "--data", folder / "digits", "--conv", "direct"}, 64);
  expect_less(1, with({TRAIN_CIFAR, "--arch", "cnn10"}, pictures), 4);
  expect_less(2, with({TRAIN_CIFAR_CHANNEL_PARALLEL}, pictures), 4);
  expect_less(1, with({TRAIN_DCGAN, "--channels", "64"}, pictures), 20);
}

TEST_F(ActivationMemory, OfLargeImagesIsHalved) {
  const std::string image =
      jpeg_file(make_image(70, 70, [](int c, int y, int x) { return (x * y + c) % 256; }));
  for (const char* const split : {"train", "val"}) {
    const std::filesystem::path label = std::filesystem::path(data) / split / "label";
    std::filesystem::create_directories(label);
    for (int i = 0; i < 8; ++i)
      std::ofstream(label / fmt::format("{}.jpg", i), std::ios::binary) << image;
  }
  expect_less(1,
              {TRAIN_IMAGENET, "--data", data, "--arch", "resnet18", "--image-size", "67", "--conv",
               "direct"},
              4);
}

TEST_F(ActivationMemory, OfATransformerIsHalved) {
  std::ofstream(data) << std::string(20000, 'a');
  expect_less(1,
              {TRAIN_LM, "--data", data, "--layers", "2", "--heads", "2", "--width", "64",
               "--context", "32"},
              16);
}

TEST_F(ActivationMemory, OfRecurrentLayersIsHalved) {
  expect_less(
      1,
      {TRAIN_SEQ2SEQ, "--unit", "64", "--layer", "2", "--examples", "400", "--test-examples", "10"},
      64);
}

}  // namespace
}  // namespace tasuki::testing
