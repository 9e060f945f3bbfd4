// Images that a generator makes.
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

// N x (image) from the run's fixed noise, on the CPU: numbers of image i are a function of (seed,
// i) alone. In evaluation mode.
Tensor generate(DcganGenerator& generator, const DcganSettings& settings, std::uint64_t seed,
                std::int64_t count);

// One PNG file with a grid of all, if the path ends in .png; an IDX file of grey images (MNIST's
// format), if it ends in idx3-ubyte; else a folder with a PNG file of each. An error names the
// path.
void write_images(const std::filesystem::path& path, const Tensor& images);

// On rank 0: every `interval` iterations a grid of the first 100 images,
// OUT/preview/image00001000.png, and the weights of both networks, OUT/gen_iter_1000.npz and
// OUT/dis_iter_1000.npz. At the end `samples` images: OUT/samples-idx3-ubyte for grey ones
// (MNIST's format), a PNG file each in OUT/samples for others. `gan` outlives the extension.
std::unique_ptr<Extension> write_samples(Dcgan& gan, const SampleSettings& settings);

}  // namespace tasuki::dcgan
