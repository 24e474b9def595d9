// The loop of the commands that write a record for each picture.
#pragma once

#include "app/options/requests.h"
#include "app/pipeline/pipeline.h"
#include "app/results/json.h"
#include "app/session/session.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace hydrascope::app {

struct RecordRun {
  std::string command;  ///< the label of its progress
  std::string columns;  ///< as `each`, of a RecordStream
  std::string each;
  /// The record of a picture, or of its failure, and its text for people. May take the result apart.
  std::function<std::pair<OrderedJson, std::string>(PipelineResult&)> record;
  /// The origin of records of a file in jsonl, which say it, and as which their input's file was read.
  std::optional<std::string> origin = {};
  bool resumes = false;  ///< behind the records that the output holds
};

/// Runs the loaded session over the pictures that `request` names, and writes their records to its output. A
/// page, which the caller writes, has none; failures are said. Returns the exit code. Throws
/// Error(invalid_argument) where records cannot be gone on with, and what the output throws.
int write_records(Session& session, const PicturesRequest& request, const RecordRun& run);

}  // namespace hydrascope::app
