// train_dcgan as users start it.

#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "core/error.hpp"
#include "core/file.hpp"
#include "dataset/files/idx.hpp"
#include "models/dcgan.hpp"
#include "saving/model_file.hpp"
#include "saving/npz.hpp"
#include "tests/support/digits.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainDcgan : public TrainingJob {
 protected:
  TrainDcgan()
      : TrainingJob({TRAIN_DCGAN, "--dataset", "mnist", "--channels", "8", "--conv", "direct",
                     "--global-batch", "16", "--shards", "2", "--log-every", "1"}) {
    write_digits(data, 64, 16);
  }
};

TEST_F(TrainDcgan, UsesChainerMNsDefaults) {
  const Finished job = run_program({TRAIN_DCGAN, "--print-config"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* line :
       {"\nbatchsize = 50 ", "\nepoch = 1000 ", "\nlr = 0.0002 ", "\nweight-decay = 0.0001 ",
        "\nn-hidden = 100 ", "\nsnapshot-interval = 1000 ", "\ndisplay-interval = 100 "})
    EXPECT_EQ(count_of(job.out, line), 1) << line << job.out;
}

// With the statistics of the global batch: random numbers are functions of the example.
TEST_F(TrainDcgan, GivesTheSameLossesAndSamplesOnAnyRanks) {
  const std::vector<std::string> flags = {"--epoch", "2", "--sync-bn"};
  const auto one = log_of(1, "np1", flags);
  const auto two = log_of(2, "np2", flags);
  ASSERT_EQ(one.size(), 8U);
  for (const char* key : {"main/dis/loss", "main/gen/loss", "validation/main/dis/loss"})
    expect_near(values_of(two, key), values_of(one, key), 1e-4);
  const auto generated = values_of(one, "main/gen/loss");
  EXPECT_GT(std::abs(generated.back() - generated.front()), 0.01) << "too little happened";
}

using Entries = std::map<std::string, NpzValue>;

// Models and optimizers.
Entries state_in(const std::string& snapshot) {
  const NpzFile file(snapshot);
  Entries entries;
  for (const std::string& name : file.names())
    if (name.starts_with("updater/model:") || name.starts_with("updater/optimizer:"))
      entries.emplace(name, file.read(name));
  return entries;
}

double number_in(const Entries& entries, const std::string& name) {
  return std::get<Tensor>(entries.at(name)).item();
}

bool are_equal(const NpzValue& a, const NpzValue& b) {
  const auto* const x = std::get_if<Tensor>(&a);
  if (x == nullptr) return std::get<std::string>(a) == std::get<std::string>(b);
  const auto& y = std::get<Tensor>(b);
  return x->shape() == y.shape() && std::memcmp(x->raw(), y.raw(), x->bytes()) == 0;
}

// A process may end between a checkpoint and what is due beside it.
TEST_F(TrainDcgan, WritesMissingImagesAndWeights) {
  const std::vector<std::string> flags = {"--max-iterations",    "4", "--checkpoint-every", "2it",
                                          "--snapshot-interval", "2", "--samples",          "4"};
  log_of(2, "out", flags);
  const std::vector<std::string> names = {"gen_iter_2.npz",
                                          "dis_iter_2.npz",
                                          "gen_iter_4.npz",
                                          "dis_iter_4.npz",
                                          "preview/image00000002.png",
                                          "preview/image00000004.png",
                                          "samples-idx3-ubyte",
                                          "snapshot_iter_4"};
  std::map<std::string, std::string> before;
  for (const std::string& name : names) before[name] = read_file(folder / ("out/" + name));
  const auto expect_made = [&](const std::string& from, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i)
      std::filesystem::remove(folder / ("out/" + names[i]));
    const Finished job = run(2, "out", with(flags, {"--resume", from}));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    for (const std::string& name : names)
      if (name == "snapshot_iter_4")  // which has times
        EXPECT_TRUE(std::filesystem::exists(folder / ("out/" + name)));
      else
        EXPECT_EQ(read_file(folder / ("out/" + name)), before[name]) << name << job.all();
  };
  expect_made("auto", 2, 2);
  expect_made("auto", 5, 3);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/checkpoints/iter_4-2"));
  expect_made(folder / "out/checkpoints/iter_2", 0, 2);
  EXPECT_EQ(count_of(run(2, "out", with(flags, {"--resume", "auto"})).all(), "nothing to do"), 1);
}

TEST_F(TrainDcgan, SavesButMakesNoSamplesWhenStopped) {
  const Finished job =
      run_until_asked(mpirun(2, program("out", {"--epoch", "100000", "--samples", "100"})), "out");
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::stopped)) << job.all();
  EXPECT_EQ(count_of(job.err, "stopped and saved after iteration "), 1) << job.all();
  EXPECT_FALSE(std::filesystem::exists(folder / "out/samples-idx3-ubyte"));
}

// An infinite bias before a sigmoid, whose losses and gradients are finite.
TEST_F(TrainDcgan, RejectsNonFiniteNetworks) {
  Dcgan gan({.image = {1, 28, 28}, .channels = 8});
  gan.initialize(1);
  const Module::NamedParameter last = gan.gen.parameters().back();
  ASSERT_EQ(last.parameter->shape(), Shape{1}) << last.path;
  last.parameter->value().fill(std::numeric_limits<double>::infinity());
  save_npz(folder / "gen.npz", gan.gen);
  const Finished job =
      run_program(mpirun(2, program("out", {"--epoch", "2", "--snapshot-interval", "1",
                                            "--gen-model", folder / "gen.npz"})));
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
  EXPECT_EQ(count_of(job.err, "gen.npz: " + last.path + " has values that are not finite"), 1)
      << job.all();
  for (const char* const file : {"gen_iter_1.npz", "dis_iter_1.npz", "preview"})
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(folder / "out") / file)) << file;
}

TEST_F(TrainDcgan, ResumesLikeAnUninterruptedRun) {
  const std::vector<std::string> flags = {"--epoch", "2", "--samples", "12", "--snapshot_interval",
                                          "4"};
  log_of(2, "whole", flags);
  log_of(2, "cut", with(flags, {"--max-iterations", "5"}));
  log_of(2, "cut", with(flags, {"--resume", folder / "cut"}));
  const auto whole = read_log("whole"), resumed = read_log("cut");
  ASSERT_EQ(whole.size(), 8U);
  for (const char* key : {"main/dis/loss", "main/gen/loss"})
    EXPECT_EQ(values_of(resumed, key), values_of(whole, key)) << key;
  const Entries expected = state_in(folder / "whole/snapshot_iter_8"),
                found = state_in(folder / "cut/snapshot_iter_8");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(found.contains(name) && are_equal(found.at(name), value)) << name;
  for (const char* name : {"updater/optimizer:gen/l0/W/m", "updater/optimizer:dis/c0_0/W/v",
                           "updater/model:gen/dc1/W", "updater/model:dis/l3/W"})
    EXPECT_TRUE(expected.contains(name)) << name;
  EXPECT_EQ(number_in(expected, "updater/optimizer:dis/hyperparameters/beta1"), 0.5);
  for (const char* const file : {"preview/image00000008.png", "samples-idx3-ubyte"})
    EXPECT_EQ(read_file(std::filesystem::path(folder / "whole") / file),
              read_file(std::filesystem::path(folder / "cut") / file))
        << file;
  EXPECT_EQ(open_idx_images(folder / "cut/samples-idx3-ubyte")->header().count, 12);

  // More of them, without training; of a snapshot, and of the generator's weights alone.
  for (const std::vector<std::string>& model :
       {std::vector<std::string>{folder / "whole"},
        {folder / "whole/gen_iter_8.npz", "--arch", "dcgan"}}) {
    const Finished made =
        run_program(with(with({PREDICT}, model), {"--samples", "12", "--out",
                                                  folder / "12-idx3-ubyte", "--format", "json"}));
    EXPECT_EQ(made.exit_code, 0) << made.all();
    EXPECT_EQ(count_of(made.out, R"({"summary":{"images":12,"file":)"), 1) << made.all();
    EXPECT_EQ(read_file(folder / "12-idx3-ubyte"), read_file(folder / "whole/samples-idx3-ubyte"));
  }
  const Finished refused = run_program({PREDICT, folder / "whole"});
  EXPECT_EQ(refused.exit_code, static_cast<int>(ErrorKind::usage)) << refused.all();
  EXPECT_EQ(count_of(refused.all(), "give --out FILE.png"), 1) << refused.all();

  // Weights that another run begins with: files of both networks, or a snapshot.
  const std::vector<std::string> one_step = {"--epoch", "1", "--max-iterations", "1"};
  const auto loss_with = [&](const std::vector<std::string>& more) {
    return values_of(log_of(2, "next", with(one_step, more)), "main/gen/loss");
  };
  const std::vector<double> of_files = loss_with({"--gen_model", folder / "whole/gen_iter_8.npz",
                                                  "--dis_model", folder / "whole/dis_iter_8.npz"});
  EXPECT_EQ(of_files, loss_with({"--init", folder / "whole/snapshot_iter_8"}));
  EXPECT_NE(of_files, loss_with({}));
}

// What one flag does is done to both optimizers.
TEST_F(TrainDcgan, AppliesFlagsToBothOptimizers) {
  const std::vector<std::string> flags = {"--epoch",       "2",     "--lr",           "0.001",
                                          "--lr-schedule", "steps", "--lr-drops",     "1",
                                          "--clip-norm",   "0.5",   "--weight-decay", "0.01"};
  log_of(2, "out", flags);
  const Entries state = state_in(folder / "out/snapshot_iter_8");
  for (const std::string optimizer : {"updater/optimizer:gen/", "updater/optimizer:dis/"}) {
    EXPECT_DOUBLE_EQ(number_in(state, optimizer + "hyperparameters/alpha"), 1e-4);
    EXPECT_EQ(number_in(state, optimizer + "t"), 8);
    const auto hooks = std::get<std::string>(state.at(optimizer + "hooks"));
    EXPECT_NE(hooks.find("0.5"), std::string::npos) << hooks;
    EXPECT_NE(hooks.find("WeightDecay(0.01)"), std::string::npos) << hooks;
  }
}

// The ways of an exchange give the same training.
TEST_F(TrainDcgan, TrainsWithEveryExchange) {
  const std::vector<std::string> flags = {"--epoch", "1"};
  const auto whole = values_of(log_of(2, "out", flags), "main/gen/loss");
  for (const std::vector<std::string>& way : {std::vector<std::string>{"--exchange", "slices"},
                                              {"--exchange", "thread", "--communicator", "flat"},
                                              {"--shard-optimizer"},
                                              {"--shard", "gradients"},
                                              {"--node-weights", "private"}})
    expect_near(values_of(log_of(2, "out", with(flags, way)), "main/gen/loss"), whole, 1e-4);
  for (const std::vector<std::string>& way : {std::vector<std::string>{"--accumulate", "2"},
                                              {"--exchange", "double-buffered"},
                                              {"--compress", "powersgd:2"},
                                              {"--monitor", "0.05", "--trace", folder / "trace"}})
    EXPECT_FALSE(log_of(2, "out", with(flags, way)).empty());
}

TEST_F(TrainDcgan, RejectsBadInputInOneLine) {
  std::filesystem::create_directories(data + "/train");
  std::filesystem::create_directories(data + "/test");
  const auto expect_line = [&](int np, const std::vector<std::string>& flags, int exit_code,
                               const std::string& words) {
    const Finished job = run(np, "bad", flags);
    EXPECT_EQ(job.exit_code, exit_code) << job.all();
    EXPECT_EQ(count_of(job.all(), words), 1) << job.all();
  };
  expect_line(2, {"--dataset", "images"}, static_cast<int>(ErrorKind::missing),
              "expected a subfolder with images for each class");
  expect_line(1, {"--channels", "9"}, static_cast<int>(ErrorKind::usage),
              "need a number of channels that 2 divides, not 9");
  for (const char* const flag : {"--gen_model", "--dis_model"})
    expect_line(2, {flag, folder / "none.npz"}, static_cast<int>(ErrorKind::missing),
                "none.npz: no such file");
  expect_line(1, {"--n_hidden", "0"}, static_cast<int>(ErrorKind::usage), "--n-hidden: expected");
}

}  // namespace
}  // namespace tasuki::testing
