#include "bindings/guest_model.hpp"

#include <fmt/core.h>

#include <array>
#include <exception>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "communicator/agreement.hpp"
#include "communicator/gpu/choose_gpu.hpp"
#include "communicator/leave.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi_comm.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/printable.hpp"
#include "nn/predict.hpp"
#include "optimizer/module_exchange.hpp"
#include "saving/model_file.hpp"
#include "saving/npz.hpp"
#include "saving/onnx/export_onnx.hpp"
#include "saving/safetensors.hpp"
#include "saving/saved_states.hpp"
#include "saving/training_file.hpp"
#include "tensor/cpu_thread_scope.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki::bindings {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Where the weights are in a file of save_training(), a checkpoint or a snapshot.
constexpr const char* trained_prefix = "updater/model:main/";
constexpr const char* seed_entry = "seed";

// A shape of one example as one of several.
Shape of_examples(std::int64_t examples, const Shape& one) {
  std::vector<std::int64_t> sizes{examples};
  sizes.insert(sizes.end(), one.begin(), one.end());
  return Shape(sizes);
}

Shape of_one_example(const Shape& several) {
  return Shape(std::span(several.begin() + 1, several.end()));
}

bool has_weights_of_training(const ArraySource& source) {
  for (const std::string& name : source.names())
    if (name.starts_with(trained_prefix)) return true;
  return false;
}

// Chooses this rank's GPU with the help of a communicator on CPUs.
CommunicatorOptions options_on_gpu(Communicator& helper) {
  CommunicatorOptions options;
  const ChosenGpu gpu = choose_gpu({std::nullopt, false, "settings: device=gpu"}, helper);
  options.device = gpu.device;
  options.gpu_is_shared = gpu.is_shared;
  return options;
}

// Calls `work` on all ranks, as run_on_all() does, which keeps neither the type of OutOfMemory nor
// the rank.
void run_on_all_as(const std::string& who, Communicator& communicator,
                   const std::function<void()>& work) {
  bool is_out_of_memory = false;
  try {
    run_on_all(communicator, [&] {
      try {
        work();
      } catch (const OutOfMemory& error) {
        is_out_of_memory = true;
        throw Error(error.kind(), fmt::format("{}: {}", who, error.what()));
      } catch (const Error& error) {
        if (communicator.size() == 1) throw;
        throw Error(error.kind(), fmt::format("{}: {}", who, error.what()));
      }
    });
  } catch (const Error& error) {
    if (is_out_of_memory) throw NoMemoryHere(error.kind(), error.what(), error.scope());
    throw;
  }
}

std::string name_of_rank(const Communicator& communicator) {
  int of_job = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &of_job);
  const auto own = static_cast<std::size_t>(communicator.rank());
  return fmt::format("rank {} on {}", of_job, communicator.topology().host_of[own]);
}

void check_path(const std::filesystem::path& path) {
  if (path.empty()) fail(ErrorKind::usage, "path: expected the name of a file, found none");
}

}  // namespace

GuestModel::GuestModel(MPI_Comm comm, const std::string& network, const std::string& loss,
                       const std::string& settings) {
  Network described;
  Settings parsed;
  CommunicatorOptions options;
  // Errors of all ranks are thrown when `first` is gone, because MPI's handles of a communicator
  // that an exception destroys stay.
  std::exception_ptr error;
  {
    // Works wherever MPI does, until the settings are known.
    const auto first = create_communicator("naive", comm);
    try {
      run_on_all_as(name_of_rank(*first), *first, [&] {
        loss_ = &loss_named(loss);
        parsed = settings_of(settings);
        described = network_of(network);
      });
      check_agreement(*first, {"network " + network, "loss " + loss, "settings " + settings},
                      "pass the same lines on all ranks");
      if (parsed.on_gpu) options = options_on_gpu(*first);
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);

  threads_ = parsed.threads;
  seed_ = parsed.seed;
  device_ = options.device;
  const CpuThreadScope threads(threads_);
  communicator_ = create_communicator(parsed.communicator, comm, options);
  votes_ = Tensor(communicator_->allocate(3 * sizeof(std::int64_t)), 0, {3}, DType::int64);
  random_.emplace(seed_);
  network_ = std::move(described.layer);
  network_->initialize(seed_);
  network_->to(device_);
  input_ = described.input;
  // The result of one example has the result's shape, and gives shapes to layers that lack them.
  const Tensor example = Tensor::zeros(of_examples(1, input_), DType::float32, device_);
  output_ = of_one_example(tasuki::predict(*network_, example).shape());
  if (loss_->has_classes && output_.rank() == 0)
    fail_everywhere(ErrorKind::config, "{} needs a network whose result has classes", loss_->name);
  optimizer_ = create_multi_node_optimizer(std::move(parsed.optimizer), *communicator_);
  optimizer_->setup(*network_);
  note_values();
}

std::string GuestModel::who() const {
  return name_of_rank(*communicator_);
}

void GuestModel::together(const std::function<void()>& work) {
  int has_ended = 0;
  TASUKI_MPI(MPI_Finalized, &has_ended);
  if (has_ended != 0) fail(ErrorKind::usage, "expected a call before MPI_Finalize");
  if (!ended_.empty())
    fail(ErrorKind::io, "this model can only predict and be destroyed, after an error: {}", ended_);
  const bool has_others = communicator_->size() > 1;
  const CpuThreadScope threads(threads_);
  try {
    work();
  } catch (const OutOfMemory& error) {
    if (has_others) {
      ended_ = message_line(error.what());
      leave(*communicator_, error.what());
    }
    throw;
  } catch (const Error& error) {
    if (has_others) {
      if (error.scope() == ErrorScope::this_rank) ended_ = message_line(error.what());
      leave_after_error(*communicator_);
    }
    throw;
  } catch (const std::exception& error) {
    if (has_others) {
      ended_ = message_line(error.what());
      leave_after_error(*communicator_);
    }
    throw;
  }
}

void GuestModel::check_together(const std::function<void()>& check) {
  std::exception_ptr own;
  try {
    check();
  } catch (...) {
    own = std::current_exception();
  }
  // If ranks have several values, the largest of the values and the largest of their negatives
  // differ in more than the sign.
  std::int64_t* const votes = votes_.data<std::int64_t>();
  votes[0] = own ? 1 : 0;
  votes[1] = values_;
  votes[2] = -values_;
  communicator_->allreduce(votes_, ReduceOp::max);
  const bool any_failed = votes[0] != 0, differ = votes[1] != -votes[2];
  if (any_failed)
    run_on_all_as(who(), *communicator_, [&] {
      if (own) std::rethrow_exception(own);
    });
  if (!differ) return;
  std::vector<std::string> lines;
  for (const std::string& name : optimizer_->hyperparameters())
    lines.push_back(fmt::format("{} {}", name, optimizer_->get(name)));
  check_agreement(*communicator_, lines, "pass tasuki_set the same values on all ranks");
}

Tensor GuestModel::input_of(const tasuki_array* x) const {
  const Tensor values = values_of(*not_null(x, "x"), "x");
  if (values.dtype() != DType::float32)
    fail(ErrorKind::usage, "x: expected float32 or float64, found {}", name_of(values.dtype()));
  const Shape wanted = of_examples(values.shape()[0], input_);
  if (!is_same_but_for_ones(values.shape(), wanted))
    fail(ErrorKind::usage, "x: expected {} for this network ({} examples), found {}",
         text_of(wanted, x->order), wanted[0], text_of(values.shape(), x->order));
  return values.reshape(wanted).to(device_);
}

GuestModel::Examples GuestModel::examples_of(const tasuki_array* x, const tasuki_array* t) const {
  Examples examples;
  examples.x = input_of(x);
  const Tensor targets = values_of(*not_null(t, "t"), "t");
  const std::int64_t count = examples.x.shape()[0];
  if (targets.shape()[0] != count)
    fail(ErrorKind::usage, "t: expected targets of {} examples, as x has, found {}", count,
         targets.shape()[0]);
  const bool are_values = targets.dtype() == DType::float32;
  if (are_values ? !loss_->takes_values : !loss_->takes_labels)
    fail(ErrorKind::usage, "t: {} takes {}, found {}", loss_->name,
         loss_->takes_labels ? "labels (int32 or int64)" : "float32 or float64",
         name_of(targets.dtype()));
  Shape wanted = of_examples(count, output_);
  if (loss_->has_classes) wanted = of_examples(count, of_one_example(output_));
  if (!is_same_but_for_ones(targets.shape(), wanted))
    fail(ErrorKind::usage, "t: expected {} for this network and {} ({} examples), found {}",
         text_of(wanted, t->order), loss_->name, count, text_of(targets.shape(), t->order));
  examples.weight = weight_of(targets, loss_->has_classes ? output_[0] : 2);
  examples.t = targets.reshape(wanted).to(device_);
  return examples;
}

Variable GuestModel::loss_of(const Examples& examples) {
  return loss_->loss((*network_)(Variable(examples.x)), examples.t);
}

void GuestModel::train_step(const tasuki_array* x, const tasuki_array* t, double* loss) {
  together([&] {
    Examples examples;
    check_together([&] { examples = examples_of(x, t); });
    // Numbers of the step's examples, no two of them equal on any ranks.
    std::vector<std::int64_t> ids(static_cast<std::size_t>(examples.x.shape()[0]));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int64_t>(i) * communicator_->size() + communicator_->rank();
    random_->follow(optimizer_->t(), ids);
    const RandomScope randoms(*random_);
    const Tensor mean = optimizer_->update([&] { return loss_of(examples); }, examples.weight);
    if (loss != nullptr) *loss = examples.weight > 0 ? mean.item() : not_a_number;
  });
}

double GuestModel::evaluate(const tasuki_array* x, const tasuki_array* t) {
  double result = not_a_number;
  together([&] {
    Examples examples;
    check_together([&] { examples = examples_of(x, t); });
    std::array<double, 2> own{};  // the sum of losses, and of weights
    run_on_all_as(who(), *communicator_, [&] {
      if (examples.weight == 0) return;
      const NoGrad no_graph;
      const TrainingMode evaluation(false);
      const auto weight = static_cast<double>(examples.weight);
      own = {loss_of(examples).value().item() * weight, weight};
    });
    double sum = 0, weights = 0;
    for (const Tensor& of_rank :
         communicator_->allgather(Tensor::from<double>(own, Shape{std::ssize(own)}))) {
      const Tensor numbers = of_rank.to(Device::cpu());
      sum += numbers.data<double>()[0];
      weights += numbers.data<double>()[1];
    }
    if (weights > 0) result = sum / weights;
  });
  return result;
}

void GuestModel::predict(const tasuki_array* x, const tasuki_array* y) {
  const CpuThreadScope threads(threads_);
  const Tensor input = input_of(x);
  const std::int64_t examples = input.shape()[0], wanted = checked_shape(*not_null(y, "y"), "y")[0];
  if (wanted != examples)
    fail(ErrorKind::usage, "y: expected room for {} examples, as x has, found {}", examples,
         wanted);
  if (examples == 0) return;
  write_values(tasuki::predict(*network_, input).to(Device::cpu()), *y, "y");
}

void GuestModel::note_values() {
  std::vector<double> values;
  for (const std::string& name : optimizer_->hyperparameters())
    values.push_back(optimizer_->get(name));
  values_ = static_cast<std::int64_t>(hash_bytes(std::as_bytes(std::span(values))) >> 1);
}

void GuestModel::set(const std::string& name, double value) {
  optimizer_->set(name, value);
  note_values();
}

double GuestModel::get(const std::string& name) const {
  if (name == "steps") return static_cast<double>(optimizer_->t());
  if (name == "parameters") return static_cast<double>(network_->parameter_count());
  if (name == "rank") return communicator_->rank();
  if (name == "ranks") return communicator_->size();
  return optimizer_->get(name);
}

void GuestModel::save(const std::filesystem::path& path) {
  const auto write = [&] {
    check_path(path);
    const auto ending = path.extension();
    if (ending == ".npz") {
      save_npz(path, *network_);
    } else if (ending == ".safetensors") {
      save_safetensors(path, *network_);
    } else if (ending == ".onnx") {
      if (!device_.is_cpu())
        fail(ErrorKind::usage,
             "{}: ONNX models are written from the CPU; save .npz, and load it into a model with "
             "device=cpu",
             path.string());
      export_onnx(*network_, Tensor::zeros(of_examples(1, input_)), path);
    } else {
      fail(ErrorKind::usage, "{}: expected a name that ends in .npz, .safetensors or .onnx",
           path.string());
    }
  };
  together([&] {
    run_on_root(*communicator_, 0, [&] {
      write();
      return Bytes();
    });
  });
}

void GuestModel::load(const std::filesystem::path& path) {
  together([&] {
    run_on_root(*communicator_, 0, [&] {
      check_path(path);
      const auto source = open_weights(path);
      load_npz(*source, *network_, has_weights_of_training(*source) ? trained_prefix : "");
      return Bytes();
    });
    bcast_data(*communicator_, *network_);
  });
}

void GuestModel::checkpoint(const std::filesystem::path& path) {
  together([&] {
    run_on_root(*communicator_, 0, [&] {
      check_path(path);
      return Bytes();
    });
    save_training(path, *optimizer_, {{seed_entry, static_cast<std::int64_t>(seed_)}});
  });
}

void GuestModel::resume(const std::filesystem::path& path) {
  together([&] {
    run_on_root(*communicator_, 0, [&] {
      check_path(path);
      if (std::filesystem::is_directory(path))
        fail(ErrorKind::data, "{}: expected a file of tasuki_checkpoint, found a folder",
             path.string());
      return Bytes();
    });
    const ProgramNumbers numbers = load_training(path, *optimizer_);
    note_values();
    const auto seed = numbers.find(seed_entry);
    if (seed == numbers.end()) return;  // written by save_training()
    seed_ = static_cast<std::uint64_t>(seed->second);
    random_.emplace(seed_);
  });
}

}  // namespace tasuki::bindings
