// predict puts models together whose parts were trained on several ranks.
#include "predict_job.hpp"
#include "tests/support/pictures.hpp"

namespace tasuki::testing {
namespace {

class PredictParts : public TrainMnist {
 protected:
  // A run of two epochs; returns the last entry of its log.
  json train(const std::string& trainer, int np, const std::vector<std::string>& flags) {
    auto words = program("result", with({"--quiet"}, flags));
    words[0] = trainer;
    const Finished job = run_program(mpirun(np, words), 60);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const json log = read_log("result");
    return log.empty() ? json() : log.back();
  }
  static void expect_same(const json& summary, const json& entry) {
    EXPECT_EQ(summary.at("accuracy"), entry.at("validation/main/accuracy"));
    const double loss = entry.at("validation/main/loss");
    EXPECT_NEAR(summary.at("loss").get<double>(), loss, 1e-5 * loss);
  }
  std::string result() const { return folder / "result"; }
};

TEST_F(PredictParts, JoinsLayersOfSeveralRanks) {
  const json entry = train(MODEL_PARALLEL, 2, {"--epoch", "2", "-b", "48"});
  const std::string snapshot = result() + "/snapshot_iter_20";
  const std::string checkpoint = result() + "/checkpoints/iter_20";
  for (const std::string& model :
       {result(), snapshot, snapshot + ".0", snapshot + ".1", checkpoint, checkpoint + "/"})
    expect_same(summary_of(1, {model}), entry);
  expect_same(summary_of(3, {result()}), entry);

  expect_lines({{{result(), "--unit", "33"},
                 "snapshot_iter_20 is of another model: in its 2 parts, l1/W is 32x784; the model "
                 "has 33x784",
                 ErrorKind::data},
                {{result(), data, "--arch", "lenet", "--standardize", "off"},
                 "conv1/W is in none of them; the model has 20x1x3x3",
                 ErrorKind::data}});
  fs::remove_all(result() + "/checkpoints");
  std::string damaged = read_file(snapshot + ".1");
  damaged[damaged.size() / 2] ^= 1;
  write_file(snapshot + ".1", damaged);
  expect_lines({{{result()}, "snapshot_iter_20.1", ErrorKind::data}});
  fs::remove(snapshot + ".1");
  write_file(result() + "/snapshot_iter_10.1", damaged);
  expect_lines({{{result()}, "snapshot_iter_20.1: no such file", ErrorKind::missing}});
}

TEST_F(PredictParts, JoinsPartsSavedByPairsOfRanks) {
  const json entry = train(DUAL_PARALLEL, 4, {"--max-iterations", "5", "-b", "48"});
  expect_same(summary_of(1, {result()}), entry);
}

// Channels do not divide evenly by 3.
TEST_F(PredictParts, JoinsConvolutionChannels) {
  fs::remove_all(data);
  write_pictures(data, 20, 6);
  auto words = program(
      "result", {"--quiet", "--conv", "direct", "--epoch", "1", "-b", "10", "--lr", "0.001"});
  words.erase(words.begin(), words.begin() + 3);  // of train_mnist
  const Finished job = run_program(mpirun(3, with({CHANNEL_PARALLEL}, words)), 60);
  ASSERT_EQ(job.exit_code, 0) << job.all();
  expect_same(summary_of(1, {result(), "--conv", "direct"}), read_log("result").back());
}

}  // namespace
}  // namespace tasuki::testing
