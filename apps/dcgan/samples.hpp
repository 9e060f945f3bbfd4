// Images from a generator.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "models/dcgan.hpp"
#include "training/extension.hpp"

namespace tasuki::dcgan {

struct SampleSettings {
  DcganSettings model;
  std::uint64_t seed = 0;
  std::int64_t interval = 1000;  // iterations between grids
  std::int64_t samples = 0;      // at the end of the run
};

// N x (image) from the run's fixed noise, on the CPU, in evaluation mode: the noise of image i
// depends only on (seed, i).
Tensor generate(DcganGenerator& generator, const DcganSettings& settings, std::uint64_t seed,
                std::int64_t count);

// Writes one PNG file with a grid of all images if the path ends in .png, an IDX file of grey
// images (MNIST's format) if it ends in idx3-ubyte, otherwise a folder with a PNG file for each.
// Errors name the path.
void write_images(const std::filesystem::path& path, const Tensor& images);

// Writes on rank 0, every `interval` iterations, a grid of the first 100 images,
// OUT/preview/image00001000.png, and the weights of both networks, OUT/gen_iter_1000.npz and
// OUT/dis_iter_1000.npz; at the end, `samples` images: grey ones to OUT/samples-idx3-ubyte (MNIST's
// format), others as PNG files to OUT/samples. With --tensorboard the grids are shown there, too.
// `gan` must outlive the extension.
std::unique_ptr<Extension> write_samples(Dcgan& gan, const SampleSettings& settings);

}  // namespace tasuki::dcgan
