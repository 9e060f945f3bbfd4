// Weights out and in: tasuki-export writes what a run has trained, and --init and tasuki-predict
// read it again.
#include "predict_job.hpp"
#include "saving/name_map.hpp"
#include "saving/safetensors.hpp"
#include "saving/saved_states.hpp"

namespace tasuki::testing {
namespace {

class ExportedDigits : public PredictDigits {
 protected:
  std::string exported(const std::vector<std::string>& flags) {
    std::vector<std::string> words = {EXPORT, result()};
    words.insert(words.end(), flags.begin(), flags.end());
    const Finished job = run_program(words);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return job.out;
  }
  // What an array of the run has, as bytes.
  static std::string bytes_of(const ArraySource& source, const std::string& name) {
    const Tensor values = std::get<Tensor>(source.read(name));
    return {static_cast<const char*>(values.raw()), values.bytes()};
  }
};

TEST_F(ExportedDigits, HaveThePyTorchNamesAndTheRunsValues) {
  const std::string file = folder / "digits.safetensors";
  EXPECT_THAT(exported({"-o", file}), HasSubstr("6 arrays, "));
  const SafetensorsFile found(file);
  EXPECT_EQ(found.metadata().at("format"), "pt");
  const auto run = open_newest_intact(result(), "--model");
  for (const char* const layer : {"l1", "l2", "l3"}) {
    const std::string trained = std::string("updater/model:main/predictor/") + layer;
    EXPECT_EQ(bytes_of(found, std::string(layer) + ".weight"), bytes_of(*run[0], trained + "/W"));
    EXPECT_EQ(bytes_of(found, std::string(layer) + ".bias"), bytes_of(*run[0], trained + "/b"));
  }
  EXPECT_EQ(found.names().size(), 6U);
}

TEST_F(ExportedDigits, PredictAndTrainAsTheRunDoes) {
  const std::string map = folder / "map";
  write_file(map, "net.*.kernel = */W transposed\nnet.*.bias = */b\n");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-o", folder / "a.safetensors"},
        {"-o", folder / "b.npz"},
        {"-o", folder / "c.safetensors", "--names", map}}) {
    const std::string& file = flags[1];
    SCOPED_TRACE(file);
    exported(flags);
    const bool is_mapped = flags.size() > 2;
    const json summary =
        summary_of(1, {file, data, "--arch", "mlp", "--model-map", is_mapped ? map : "auto"});
    EXPECT_EQ(summary.at("accuracy").get<double>(), accuracy());
    const std::string out = file + ".out";
    std::vector<std::string> words = {
        TRAIN_MNIST, "--unit",      "32",  "--data", data, "--init",    file, "--epoch", "1", "-b",
        "50",        "--optimizer", "sgd", "--lr",   "0",  "--threads", "1",  "--out",   out};
    if (is_mapped) words.insert(words.end(), {"--init-map", map});
    const Finished job = run_program(words);
    ASSERT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.err, "initial weights: " + file), 1) << job.err;
    EXPECT_EQ(count_of(job.err, ", hash of the file "), file.ends_with("npz") ? 0 : 1) << job.err;
    EXPECT_EQ(count_of(job.err, "with the names of " + (is_mapped ? map : "torchvision")),
              file.ends_with("npz") ? 0 : 1)
        << job.err;
    const json log = json_in(out + "/log");
    EXPECT_EQ(log.back().at("validation/main/accuracy").get<double>(), accuracy());
  }
}

// Arrays with names in no map keep their own.
TEST(ExportedNetworks, PredictAsTheirRunsDo) {
  const TemporaryFolder folder;
  write_file(folder / "text", std::string(6000, 'a') + std::string(6000, 'b'));
  const auto run = [](const std::vector<std::string>& words) {
    const Finished job = run_program(words);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return job.out;
  };
  for (const std::string arch : {"gpt", "gpt2"}) {
    SCOPED_TRACE(arch);
    const std::string lm = folder / arch, lm_file = folder / (arch + ".safetensors");
    run({TRAIN_LM,
         "--arch",
         arch,
         "--data",
         folder / "text",
         "--layers",
         "1",
         "--heads",
         "2",
         "--width",
         "8",
         "--context",
         "16",
         "--max-iterations",
         "3",
         "--threads",
         "1",
         "--sample",
         "0",
         "--out",
         lm});
    run({EXPORT, lm, "-o", lm_file});
    const std::vector<std::string> names = SafetensorsFile(lm_file).names();
    EXPECT_EQ(std::ranges::count(names, "lm_head.weight"), arch == "gpt" ? 1 : 0);
    const std::vector<std::string> prompt = {"--prompt", "ab", "--length", "40",
                                             "--seed",   "3",  "--quiet"};
    const std::string expected = run(predict_words(with({lm}, prompt)));
    EXPECT_EQ(run(predict_words(with({lm_file, "--arch", arch, "--heads", "2"}, prompt))),
              expected);
  }
}

// ONNX's own programs compute what is in these files (scripts/check_clients.sh).
TEST_F(ExportedDigits, AreOneOnnxModel) {
#ifndef TASUKI_TEST_HAS_ONNX
  GTEST_SKIP() << "this build has no ONNX: libonnx-dev is missing";
#endif
  const std::string file = folder / "digits.onnx";
  EXPECT_THAT(exported({"-o", file}), HasSubstr(" MB, in " + file));
  const std::string bytes = read_file(file);
  for (const char* const name : {"Tasuki", "l1/W", "l3/linear", "batch", "Gemm"})
    EXPECT_THAT(bytes, HasSubstr(name));
  const Finished job = run_program({EXPORT, result(), "-o", file, "--names", "tasuki"});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
  EXPECT_EQ(count_of(job.err, "--names is not for .onnx"), 1) << job.err;
}

TEST(ExportedNetworks, OfTextAndTranslationAreOnnxModels) {
#ifndef TASUKI_TEST_HAS_ONNX
  GTEST_SKIP() << "this build has no ONNX: libonnx-dev is missing";
#endif
  const TemporaryFolder folder;
  write_file(folder / "text", std::string(6000, 'a') + std::string(6000, 'b'));
  const auto run = [](const std::vector<std::string>& words) {
    const Finished job = run_program(words);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return job.out;
  };
  run({TRAIN_LM, "--data", folder / "text", "--layers", "1", "--heads", "2", "--width", "8",
       "--context", "16", "--max-iterations", "1", "--threads", "1", "--sample", "0", "--out",
       folder / "lm"});
  EXPECT_EQ(count_of(run({EXPORT, folder / "lm", "-o", folder / "lm.onnx"}), ".onnx\n"), 1);
  run({TRAIN_SEQ2SEQ, "--unit", "8", "--examples", "600", "--max-iterations", "1", "--threads", "1",
       "--out", folder / "dates"});
  const std::string said = run({EXPORT, folder / "dates", "-o", folder / "dates.onnx"});
  EXPECT_THAT(said, HasSubstr("dates_encoder.onnx\n"));
  EXPECT_THAT(said, HasSubstr("dates_decoder.onnx\n"));

  // Both or none.
  std::filesystem::create_directory(folder / "half_decoder.onnx");
  const Finished job = run_program({EXPORT, folder / "dates", "-o", folder / "half.onnx"});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::cannot_write)) << job.all();
  EXPECT_EQ(count_of(job.err, "half_decoder.onnx: Is a directory"), 1) << job.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "half_encoder.onnx"));
}

// A map may keep the last layer's initial values, as another number of classes needs it.
TEST_F(ExportedDigits, MayLeaveOutTheirHead) {
  const std::string file = folder / "a.safetensors", map = folder / "map";
  exported({"-o", file});
  write_file(map, "- = l3/*\n*.weight = */W\n*.bias = */b\nl3.* = -\n");
  const Finished job =
      run_program({TRAIN_MNIST, "--unit", "32", "--data", data, "--init", file, "--init-map", map,
                   "--max-iterations", "1", "--threads", "1", "--out", folder / "out"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "not from that file, as the map says: l3/W, l3/b\n"), 1) << job.err;
  EXPECT_EQ(count_of(job.err, "are not in the model"), 0) << job.err;
}

TEST_F(ExportedDigits, RefuseWrongInputInOneLine) {
  write_file(folder / "bad.map", "l1.weight = \n");
  write_file(folder / "bad.safetensors", std::string("\x05\0\0\0\0\0\0\0{\"a\"", 12));
  const auto expect_line = [](const std::vector<std::string>& words, const std::string& line,
                              ErrorKind kind) {
    const Finished job = run_program(words);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, line), 1) << job.err;
    EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
  };
  const std::string file = folder / "x.safetensors";
  expect_line({EXPORT, result()}, "expected --out FILE, found none", ErrorKind::usage);
  expect_line({EXPORT, result(), "--model", "other", "-o", file}, "give the model once",
              ErrorKind::usage);
  write_file(folder / "model.npz", "");
  expect_line({EXPORT, folder / "model.npz", "-o", folder / "model.npz"},
              "model.npz is the model; give another name", ErrorKind::usage);
  expect_line({EXPORT, result(), "-o", folder / "x.h5"}, "ends in .npz, .safetensors or .onnx",
              ErrorKind::usage);
  expect_line({EXPORT, result(), "other", "-o", file}, "expected one model, found other",
              ErrorKind::usage);
  expect_line({EXPORT, folder / "bad.safetensors", "-o", file, "--arch", "mlp"},
              "is no intact safetensors file: its header would have 5 bytes", ErrorKind::data);
  expect_line({EXPORT, result(), "-o", file, "--names", folder / "bad.map"},
              "bad.map, line 1: expected", ErrorKind::data);
  expect_line({EXPORT, result(), "-o", file, "--names", folder / "none"}, "No such file",
              ErrorKind::missing);
  expect_line({TRAIN_MNIST, "--data", data, "--init-map", "gpt2"}, "--init-map has no effect",
              ErrorKind::usage);
}

}  // namespace
}  // namespace tasuki::testing
