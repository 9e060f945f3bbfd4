// about.json, beside the log: versions, machine, data and flags of a run, so that runs can be
// compared.
#pragma once

#include <string>
#include <vector>

#include "program/data/training_data.hpp"
#include "program/start/rank_setup.hpp"

namespace tasuki::program {

inline constexpr const char* about_file = "about.json";

// The names of the classes; empty if they are not known.
std::vector<std::string> names_of_classes(const ProgramData& program, const TrainingData& data);

// Writes about.json into `output`, an object: "version" (of Tasuki and its libraries), rank 0's
// "host", "machine" and "device", "data" (the folder), "ranks" and "global_batch", and
// "oversubscribed" (of CPUs: whether a machine has fewer cores than the job has computing threads
// on it). For those who use the model (tasuki-predict): "program", "flags" (the text of each;
// files and folders that are there by their absolute paths, like "data"), "dataset" (its name,
// empty if the program makes its data), "example" (the shape of field "x" and the number of
// "classes", where there are such fields), "class_names" (empty if they are not known), "left_out"
// (images that
// --skip-damaged left out of "train" and of "test") and "vocabularies" (of each DataVocabulary by
// its flag: 16 hexadecimal digits of its hash). "supervisor" is the text of that variable or empty,
// by which tasuki-run recognises the folder. An error is one on all ranks. Collective.
void write_about(const Options& options, const TrainingSettings& settings,
                 const ProgramData& program, const RankSetup& setup, const TrainingData& data,
                 OutputFolder& output);

}  // namespace tasuki::program
