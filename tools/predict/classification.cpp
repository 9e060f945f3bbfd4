// Classification: labels of images, with probabilities.

#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "dataset/images/create_transform.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/scatter.hpp"
#include "models/catalog.hpp"
#include "saving/onnx/export_onnx.hpp"
#include "tensor/backend.hpp"
#include "tools/predict/class_report.hpp"
#include "tools/predict/image_inputs.hpp"
#include "tools/predict/inputs.hpp"
#include "tools/predict/networks.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/task.hpp"

namespace tasuki::predict {
namespace {

using nlohmann::json;

enum class Standardize { automatic, on, off };
enum class ExifFlag { automatic, on, off };

struct Flags {
  std::int64_t top = 5;
  std::optional<std::string> labels, classes_file;
  DataSplit split = DataSplit::test;
  std::optional<std::int64_t> classes, units, image_side;
  Standardize standardize = Standardize::automatic;
  ExifFlag exif = ExifFlag::automatic;
  std::int64_t loader_threads = 1;
};

// Whether test images were standardised in training, which --augment does. Runs of train_imagenet
// do not have that flag.
bool standardizes(const Flags& flags, const TaskContext& context) {
  if (flags.standardize != Standardize::automatic) return flags.standardize == Standardize::on;
  if (context.network == "mlp" || takes_middle_crops(context.trained.run, context.network))
    return false;
  const auto augmented = context.trained.run.flag("augment");
  if (!augmented)
    fail_everywhere(ErrorKind::usage,
                    "it is not known whether the model was trained with --augment, which "
                    "standardises images; give --standardize on or off");
  return *augmented == "true";
}

// As in the training: runs of versions that did not know the flag took images as they are stored.
Exif exif_for(const Flags& flags, const TaskContext& context) {
  if (flags.exif != ExifFlag::automatic)
    return flags.exif == ExifFlag::on ? Exif::apply : Exif::ignore;
  const FinishedRun& run = context.trained.run;
  if (const auto kept = run.flag("exif")) return *kept == "off" ? Exif::ignore : Exif::apply;
  const bool is_of_images = run.dataset == "images";
  return is_of_images ? Exif::ignore : Exif::apply;
}

std::int64_t number_of_classes(const Flags& flags, const TaskContext& context) {
  if (flags.classes) return *flags.classes;
  // A file without them is of another network, which load_weights() reports.
  return classes_in(context.trained, context.network).value_or(10);
}

// The names that fit the model.
std::vector<std::string> names_of_classes(const Flags& flags, const TaskContext& context,
                                          std::int64_t classes) {
  if (flags.classes_file) {
    const Bytes sent = run_on_root(context.communicator, 0, [&] {
      return object_to_bytes(read_class_names(*flags.classes_file, classes));
    });
    return bytes_to_object(sent);
  }
  const auto& known = context.trained.run.class_names;
  return std::ssize(known) == classes ? known : std::vector<std::string>{};
}

std::vector<std::int32_t> send_labels(const std::vector<std::int32_t>& labels,
                                      Communicator& communicator) {
  const Tensor all = communicator.bcast(Tensor::from(std::span(labels), Shape{std::ssize(labels)}));
  const std::span<const std::int32_t> values = all.span<std::int32_t>();
  return {values.begin(), values.end()};
}

// This rank's share in batches, in order.
std::unique_ptr<Iterator> batches_of(Share share, bool is_standardized, const Flags& flags,
                                     const TaskContext& context) {
  const Field& field = share.dataset->header().field("x");
  const auto crops = middle_crops_of(context.trained.run, context.network,
                                     field.shape[field.shape.rank() - 1], exif_for(flags, context));
  if (crops && !field.is_image_file)
    fail_everywhere(ErrorKind::usage,
                    "the model takes crops of ImageNet's scale: expected image files, found a data "
                    "set of pixels");
  const bool takes_long = is_standardized || field.is_image_file;
  if (crops)
    share.dataset = transformed(share.dataset, create_view_transform(*crops));
  else if (is_standardized)
    share.dataset = transformed(share.dataset, create_transform(standardization, field));
  auto batches = create_serial_iterator(std::move(share), context.settings.batchsize);
  const int threads = static_cast<int>(flags.loader_threads);
  if (!context.device.is_cpu())
    return create_device_iterator(std::move(batches), context.device, threads);
  if (!takes_long) return batches;
  return std::make_unique<PrefetchIterator>(std::move(batches), threads, threads + 1);
}

class Classification final : public Task {
 public:
  std::vector<std::string> networks() const override { return image_networks(); }
  std::optional<std::string> network_of(const FinishedRun& run) const override {
    return image_network_of(run);
  }

  void add_network_flags(program::Options& options) override {
    options.add("classes", flags_.classes, "auto", {1, 1 << 20}, "N",
                "number of classes; `auto`: as in the model file");
    options.add("unit,u", flags_.units, "auto", {1, 1 << 20}, "N",
                "units in each of the two hidden layers of mlp; `auto`: as in the model file");
    options.add("image-size", flags_.image_side, "auto", {8, 1024}, "N",
                "height and width in pixels to which image files are scaled; `auto`: as in "
                "training");
  }

  std::unique_ptr<Module> create_network(const TaskContext& context) const override {
    return create_image_network(context.network, context.trained, shape_of_image(context),
                                number_of_classes(flags_, context), flags_.units);
  }

  std::vector<FileContents> encode_onnx(const TaskContext& context, Module& model,
                                        const std::filesystem::path& file) const override {
    const Shape image = shape_of_image(context);
    std::vector<std::int64_t> sizes(image.begin(), image.end());
    sizes.insert(sizes.begin(), 1);
    const Tensor example = Tensor::full(Shape(std::span<const std::int64_t>(sizes)), 0.5);
    return {{file, tasuki::encode_onnx(dynamic_cast<Layer&>(model), example, file,
                                       {{"network", context.network}})}};
  }

  void add_flags(program::Options& options) override {
    options.group("Images", program::OnScreen::no);
    options.add("top", flags_.top, {1, 1000}, "K", "show the K most probable classes").common();
    options
        .add("labels", flags_.labels, "none", "FILE",
             "labels of the images in --data: an IDX file, or text with the number or name of a "
             "class on each line")
        .common("labels of the images in --data");
    options.add("split", flags_.split, {{"test", DataSplit::test}, {"train", DataSplit::train}},
                "NAME", "test or train: the split to use of a data set that has both");
    options.add("classes-file", flags_.classes_file, "none", "FILE",
                "names of the classes, one per line; default: those of the training data");
    options.add(
        "standardize", flags_.standardize,
        {{"auto", Standardize::automatic}, {"on", Standardize::on}, {"off", Standardize::off}},
        "WHEN",
        "auto, on or off: bring each image to mean 0 and deviation 1, as training with --augment "
        "does; `auto`: as in training");
    options.add("exif", flags_.exif,
                {{"auto", ExifFlag::automatic}, {"on", ExifFlag::on}, {"off", ExifFlag::off}},
                "WHEN",
                "auto, on or off: rotate image files as their EXIF orientation says; `auto`: as in "
                "training; runs of versions without this flag did not rotate images");
    options.add("loader-threads", flags_.loader_threads, {1, 256}, "N",
                "threads per rank that decode and standardise images ahead");
  }

  void run(const TaskContext& context) override {
    Communicator& comm = context.communicator;
    const bool is_standardized = standardizes(flags_, context);
    const std::int64_t classes = number_of_classes(flags_, context);
    Names names;
    names.classes = names_of_classes(flags_, context, classes);
    Inputs inputs;
    Share share = scatter_dataset(
        [&] {
          inputs = open_inputs(request_for(context, classes, names.classes));
          names.examples = std::move(inputs.names);
          say_if_not_turned(context, *inputs.source);
          return std::move(inputs.source);
        },
        comm);
    const std::vector<std::int32_t> labels = send_labels(inputs.labels, comm);

    const auto network =
        create_image_network(context.network, context.trained,
                             share.dataset->header().field("x").shape, classes, flags_.units);
    load_weights(context.trained, *network, comm);
    network->to(context.device);
    const auto batches = batches_of(std::move(share), is_standardized, flags_, context);
    const Predictions all =
        gather(predict_batches(*network, *batches, labels, std::min(flags_.top, classes)), comm);
    run_on_root(comm, 0, [&] {
      if (const auto example = all.first_not_finite())
        fail(ErrorKind::data,
             "example {}{}: the model's scores are not finite numbers; its training diverged, or "
             "the example is far from what it was trained on",
             *example, names.examples.empty() ? "" : " (" + names.example(*example) + ")");
      const Format format = context.settings.format;
      deliver(context.settings, rows_text(all, names, format),
              summary_text(all, names, inputs.unreadable, classes, format));
      return Bytes{};
    });
  }

 private:
  // Of the images that the network takes.
  Shape shape_of_image(const TaskContext& context) const {
    const std::optional<Shape> example = example_shape(context.network, context.trained);
    if (example && (!flags_.image_side || example->rank() != 3)) return *example;
    const std::int64_t side = flags_.image_side.value_or(find_model(context.network).insize);
    return Shape{example ? (*example)[0] : 3, side, side};
  }

  // Where an older run decides for images as they are stored.
  void say_if_not_turned(const TaskContext& context, const DataSource& source) const {
    if (flags_.exif == ExifFlag::automatic && !context.trained.run.flag("exif") &&
        !source.image_files().empty() && exif_for(flags_, context) == Exif::ignore)
      log_warning(
          "images are not rotated as their EXIF orientation says, because the run's version did "
          "not do so; --exif on rotates them");
  }

  InputRequest request_for(const TaskContext& context, std::int64_t classes,
                           const std::vector<std::string>& class_names) const {
    InputRequest request{.paths = context.settings.inputs,
                         .labels = flags_.labels,
                         .split = flags_.split,
                         .examples = context.settings.examples,
                         .example = example_shape(context.network, context.trained),
                         .image_side = flags_.image_side,
                         .exif = exif_for(flags_, context),
                         .threads = cpu_threads(),
                         .classes = classes,
                         .class_names = class_names,
                         .run = context.trained.run};
    return request;
  }

  Flags flags_;
};

}  // namespace

std::unique_ptr<Task> create_classification() {
  return std::make_unique<Classification>();
}

}  // namespace tasuki::predict
