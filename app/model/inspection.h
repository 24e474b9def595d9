// The header of a file of weights, and whether its numbers are finite.
#pragma once

#include "app/results/report.h"
#include "model/checkpoint/checkpoint.h"

#include <string>
#include <vector>

namespace hydrascope::app {

/// A file as a vision transformer.
struct Findings {
  std::string arch;
  std::string attention;
  std::string layout;
  std::vector<std::string> notes;
  std::string problem;  ///< why it is none, or not a complete one; "" for a model
};
Findings look_at(const checkpoint::WeightFile& file);

/// Adds format, metadata, tensors, `findings` and their notes.
void add_header(const checkpoint::WeightFile& file, const Findings& findings, Report& report);
/// Reads all numbers and adds the tensors that hold a NaN or an infinite one, each with a note. Returns whether
/// there is none.
bool add_not_finite(const checkpoint::WeightFile& file, Report& report);

}  // namespace hydrascope::app
