// Writes a trained model, or its weights, to a file for other programs.
//
//   build/apps/tasuki-export result -o model.safetensors

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "communicator/registry.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "job/run_job.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/start/rank_setup.hpp"
#include "program/start/same_program.hpp"
#include "saving/name_map.hpp"
#include "saving/npz.hpp"
#include "saving/safetensors.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/tasks.hpp"
#include "tools/take_words.hpp"

namespace tasuki::predict {
namespace {

using program::Options;

enum class FileKind { npz, safetensors, onnx };

FileKind kind_of(const std::filesystem::path& file) {
  if (file.extension() == ".npz") return FileKind::npz;
  if (file.extension() == ".safetensors") return FileKind::safetensors;
  if (file.extension() == ".onnx") return FileKind::onnx;
  fail_everywhere(ErrorKind::usage,
                  "--out {}: expected a name that ends in .npz, .safetensors or .onnx",
                  file.string());
}

// All arrays of the model, with the names that they get in the file.
std::vector<NpzEntry> entries_of(const Module& model, const std::string& names) {
  const NameMap map = read_name_map(names);
  std::vector<NpzEntry> entries;
  std::set<std::string> used;
  const auto add = [&](const std::string& path, const Tensor& values) {
    const std::vector<NameMap::Name> in_file = map.names_in_file(path);
    if (in_file.empty()) return;
    const auto& [name, is_transposed] = in_file.front();
    if (!used.insert(name).second)
      fail_everywhere(ErrorKind::config, "--names {}: two arrays of the model would be {}", names,
                      name);
    entries.push_back({name, is_transposed ? transposed(values, path) : values});
  };
  for (const auto& [path, parameter] : model.parameters()) add(path, parameter->value());
  for (const auto& [path, buffer] : model.buffers()) add(path, *buffer);
  return entries;
}

void write(const std::filesystem::path& file, FileKind kind, const std::vector<NpzEntry>& entries) {
  make_output_folder(std::filesystem::absolute(file).parent_path());
  if (kind == FileKind::npz)
    write_npz(file, entries);
  else
    write_safetensors(file, entries, {{"format", "pt"}});  // what loaders of PyTorch look for
  std::size_t bytes = 0;
  for (const NpzEntry& entry : entries) bytes += std::get<Tensor>(entry.value).bytes();
  std::printf("%zu arrays, %.1f MB, in %s\n", entries.size(), static_cast<double>(bytes) / 1e6,
              file.c_str());
}

void write_models(const TaskContext& context, const Task& task, Module& model,
                  const std::filesystem::path& file) {
  make_output_folder(std::filesystem::absolute(file).parent_path());
  const std::vector<FileContents> files = task.encode_onnx(context, model, file);
  write_files(files);
  for (const FileContents& each : files)
    std::printf("%.1f MB, in %s\n", static_cast<double>(each.contents.size()) / 1e6,
                each.path.c_str());
}

int export_weights(int argc, char** argv) {
  PredictionSettings settings;
  std::optional<std::string> out, names;
  const Tasks tasks = create_tasks();
  Options options("tasuki-export", "writes a trained model, or its weights, for other programs",
                  "tasuki-export result -o model.safetensors");
  options.group("Model");
  add_model_flags(options, settings, tasks);
  options.group("File");
  options
      .add("out,o", out, "none", "FILE",
           "the file to write: .safetensors, .npz as Chainer's save_npz writes it, or .onnx, the "
           "network with its weights (of a translation two, FILE_encoder and FILE_decoder)")
      .in_short("file to write: .safetensors, .npz or .onnx");
  options
      .add("names", names, "auto", "NAME",
           "names of the arrays in the file: tasuki (Chainer's), torchvision, gpt2, or a file of "
           "patterns (docs/weights.md); auto: PyTorch's in .safetensors, Tasuki's in .npz. Not for "
           ".onnx")
      .in_short("names of the arrays in the file")
      .words_or_file(program::name_map_words());
  add_network_flags(options, settings, tasks);

  const auto communicator = create_communicator("naive");
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  program::check_same_program(*communicator, arguments);
  const std::vector<std::string> words = take_words(arguments);
  const auto request = options.parse(arguments, program::read_on_root(*communicator));
  if (request != Options::Request::run) {
    program::print_on_root(*communicator, options.text(request));
    return 0;
  }
  if (words.size() > 1) fail_everywhere(ErrorKind::usage, "expected one model, found {}", words[1]);
  use_model_word(words, options, settings);
  if (!out) fail_everywhere(ErrorKind::usage, "expected --out FILE, found none");
  configure_log(communicator->rank(), LogLevel::warning);

  const FileKind kind = kind_of(*out);
  if (kind == FileKind::onnx && names)
    fail_everywhere(ErrorKind::usage,
                    "--names is not for .onnx, whose weights have Tasuki's names");
  run_on_root(*communicator, 0, [&] {
    PredictionSettings checked;
    checked.out = *out;
    check_output(checked);
    std::error_code ignored;
    if (std::filesystem::equivalent(*out, settings.model, ignored))
      fail(ErrorKind::usage, "--out {} is the model; give another name", *out);
    return Bytes{};
  });
  const TrainedModel trained = find_trained_model(settings, *communicator);
  const auto [task, network] = choose_task(tasks, settings, trained);
  const TaskContext context = {settings, trained, network, *communicator, Device::cpu()};
  const auto model = task->create_network(context);
  load_weights(trained, *model, *communicator);
  // PyTorch's names in the file of PyTorch's users, Chainer's in Chainer's.
  const std::string usual = kind == FileKind::npz ? tasuki_names : task->pytorch_names();
  run_on_root(*communicator, 0, [&] {
    if (kind == FileKind::onnx)
      write_models(context, *task, *model, end_of_links(*out));
    else
      write(end_of_links(*out), kind, entries_of(*model, names.value_or(usual)));
    return Bytes{};
  });
  return 0;
}

}  // namespace
}  // namespace tasuki::predict

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::predict::export_weights);
}
