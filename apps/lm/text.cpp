#include "apps/lm/text.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/named_file.hpp"
#include "dataset/files/text_windows.hpp"
#include "dataset/views.hpp"
#include "nn/functions/loss.hpp"

namespace F = tasuki::functions;

namespace tasuki::lm {

TrainingText read_training_text(const std::optional<std::string>& named,
                                std::optional<std::int64_t> bytes, std::int64_t context) {
  const std::filesystem::path place = named.value_or(default_text);
  if (!named && !std::filesystem::exists(status_of(place)))
    fail(ErrorKind::missing,
         "{}: no such file; install it (apt-get install dict-gcide), or give another text with "
         "--data",
         place.string());
  const std::int64_t asked = bytes.value_or(named ? 0 : default_text_bytes);
  const std::int64_t most = asked > 0 ? asked : most_text_bytes;
  // One more byte shows whether this is all.
  std::string text = read_text(place, most + 1);
  const bool has_more = std::ssize(text) > most;
  if (has_more && asked == 0)
    fail(ErrorKind::data, "{}: expected at most {} bytes of text, found more; give --bytes N",
         place.string(), most);
  if (has_more) text.pop_back();
  const std::string origin =
      fmt::format("{} {} bytes of {}", has_more ? "the first" : "all", text.size(), place.string());
  auto windows = text_windows(std::move(text), context);
  if (windows->size() < 10)
    fail(ErrorKind::data,
         "{}: {} windows of {} bytes are too few to train and to test with; expected at least 10",
         place.string(), windows->size(), context);
  return {std::move(windows), origin};
}

std::shared_ptr<const Dataset> part_of(const std::shared_ptr<const Dataset>& windows,
                                       bool is_held_out) {
  const std::int64_t block = std::min<std::int64_t>(256, windows->size() / 10);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < windows->size(); ++i)
    if ((i / block % 10 == 9) == is_held_out) indices.push_back(i);
  return subset_of(windows, std::move(indices));
}

GptSettings settings_of(const std::map<std::string, Shape>& weights, std::int64_t heads) {
  const auto shape = [&](const char* path) {
    const auto found = weights.find(path);
    if (found == weights.end() || found->second.rank() != 2)
      fail(ErrorKind::data, "expected the weights of train_lm's transformer, found no matrix {}",
           path);
    return found->second;
  };
  const Shape embed = shape("embed/W"), position = shape("position/W");
  std::int64_t layers = 0;
  while (weights.contains(fmt::format("blocks/{}/qkv/W", layers))) ++layers;
  if (layers == 0)
    fail(ErrorKind::data, "expected the weights of train_lm's transformer, found none of a block");
  if (heads < 1 || embed[1] % heads != 0)
    fail(ErrorKind::usage, "expected a number of heads that divides the model's width {}, found {}",
         embed[1], heads);
  return {.symbols = embed[0],
          .layers = layers,
          .heads = heads,
          .width = embed[1],
          .context = position[0]};
}

CodeLength code_length(Gpt& model, Iterator& batches) {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  const Device device = model.device();
  CodeLength length;
  for (std::int64_t step = batches.steps_per_epoch(); step > 0; --step) {
    report_progress();
    const Batch batch = batches.next();
    if (batch.size() == 0) continue;
    const Tensor t = batch["t"].to(device);
    const Variable scores = model(Variable(batch["x"].to(device)));
    const double mean = F::softmax_cross_entropy(scores, t.reshape({t.count()})).value().item();
    length.bits += mean / std::log(2.0) * static_cast<double>(t.count());
    length.bytes += t.count();
  }
  return length;
}

}  // namespace tasuki::lm
