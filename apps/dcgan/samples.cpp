#include "apps/dcgan/samples.hpp"

#include <algorithm>
#include <filesystem>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/own_file.hpp"
#include "core/philox.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/images/png_file.hpp"
#include "saving/model_file.hpp"
#include "training/extensions/tensorboard.hpp"
#include "training/trainer.hpp"

namespace tasuki::dcgan {
namespace {

constexpr std::int64_t grid_images = 100;
constexpr std::int64_t generated_at_once = 100;

// Of a square grid.
std::int64_t columns_for(std::int64_t count) {
  return std::llround(std::ceil(std::sqrt(static_cast<double>(count))));
}

std::vector<std::uint8_t> as_bytes(const Tensor& images) {
  std::vector<std::uint8_t> bytes;
  for (const float value : images.span<float>()) bytes.push_back(byte_of(value));
  return bytes;
}

void make_folder_of(const std::filesystem::path& file) {
  make_output_folder(std::filesystem::absolute(file).parent_path());
}

class WriteSamples final : public Extension {
 public:
  WriteSamples(Dcgan& gan, const SampleSettings& settings) : gan_(gan), settings_(settings) {}
  std::string default_name() const override { return "WriteSamples"; }
  // Samples may take long, so snapshots are saved first.
  int priority() const override { return priority_snapshot - 1; }
  std::unique_ptr<Trigger> default_trigger() const override {
    return every(static_cast<double>(settings_.interval), Unit::iteration);
  }
  bool reads_model() const override { return true; }

  void run(Trainer& trainer) override {
    trainer.announce_save();
    on_root(trainer, [&] {
      const std::int64_t iteration = trainer.updater().iteration();
      const std::filesystem::path& out = trainer.out();
      make_own_folder(out / "preview");
      const auto image = out / "preview" / fmt::format("image{:08}.png", iteration);
      const Tensor images = generate(gan_.gen, settings_.model, settings_.seed, grid_images);
      write_images(image, images);
      if (EventFile* const events = events_of(trainer))
        events->add_images("samples", images, columns_for(grid_images), iteration);
      const auto gen = out / fmt::format("gen_iter_{}.npz", iteration);
      save_npz(gen, gan_.gen);
      const auto dis = out / fmt::format("dis_iter_{}.npz", iteration);
      save_npz(dis, gan_.dis);
      for (const auto& file : {image, gen, dis}) trainer.note_result(file);
    });
  }

  void finalize(Trainer& trainer) override {
    if (settings_.samples == 0 || trainer.is_stopped()) return;
    on_root(trainer, [&] {
      const Tensor images = generate(gan_.gen, settings_.model, settings_.seed, settings_.samples);
      const bool is_grey = images.shape()[1] == 1;
      if (!is_grey) make_own_folder(trainer.out() / "samples");
      const auto place = trainer.out() / (is_grey ? "samples-idx3-ubyte" : "samples");
      write_images(place, images);
      trainer.note_result(place);
    });
  }

 private:
  // An error on rank 0 is an error on all ranks.
  template <class Work>
  static void on_root(Trainer& trainer, const Work& work) {
    const auto write = [&] {
      trainer.restore_output();
      work();
      return Bytes();
    };
    if (trainer.communicator() != nullptr)
      run_on_root(*trainer.communicator(), 0, write);
    else
      write();
  }

  Dcgan& gan_;
  SampleSettings settings_;
};

}  // namespace

Tensor generate(DcganGenerator& generator, const DcganSettings& settings, std::uint64_t seed,
                std::int64_t count) {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  const Device device = generator.device();
  const Shape& image = settings.image;
  Tensor images = Tensor::empty({count, image[0], image[1], image[2]});
  constexpr std::uint64_t purpose = 0x73616D706C6573;  // "samples"
  for (std::int64_t begin = 0; begin < count; begin += generated_at_once) {
    const std::int64_t end = std::min(count, begin + generated_at_once);
    Tensor noise = Tensor::empty({end - begin, settings.hidden});
    auto next = noise.span<float>().begin();
    for (std::int64_t i = begin; i < end; ++i) {
      RandomStream random(seed, mix(std::array{purpose, static_cast<std::uint64_t>(i)}));
      for (std::int64_t j = 0; j < settings.hidden; ++j)
        *next++ = 2 * unit_float(random.next()) - 1;
    }
    const Variable made = generator(Variable(noise.to(device)));
    images.slice(begin, end).copy_from(made.value().plain().to(Device::cpu()));
  }
  return images;
}

void write_images(const std::filesystem::path& path, const Tensor& images) {
  const std::int64_t count = images.shape()[0];
  if (path.extension() == ".png") {
    make_folder_of(path);
    return write_file(path, encode_png(tile_images(images, columns_for(count))));
  }
  if (path.string().ends_with("idx3-ubyte")) {
    if (images.shape()[1] != 1)
      fail(ErrorKind::usage, "{}: expected grey images for an IDX file, found {} channels",
           path.string(), images.shape()[1]);
    make_folder_of(path);
    return write_file(path,
                      encode_idx_images(as_bytes(images), images.shape()[2], images.shape()[3]));
  }
  for (std::int64_t i = 0; i < count; ++i)
    write_images(path / fmt::format("{:06}.png", i), images.slice(i, i + 1));
}

std::unique_ptr<Extension> write_samples(Dcgan& gan, const SampleSettings& settings) {
  return std::make_unique<WriteSamples>(gan, settings);
}

}  // namespace tasuki::dcgan
