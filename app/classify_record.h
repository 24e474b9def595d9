// One ClassifyRecord as JSON, as cells of a table, as a block of text. The writers in
// classify_writer.cpp add what stands around records.
#pragma once

#include "app/report.h"

#include <string>
#include <vector>

namespace hydrascope::app {

/// Schema 1 of the command line's contract, without a line feed.
std::string to_json(const ClassifyRecord& record);

/// Names of the columns of csv and tsv.
std::vector<std::string> classify_columns();
/// One row a prediction; a failed input is one row whose numbers are empty.
std::vector<std::vector<std::string>> to_rows(const ClassifyRecord& record);

/// A line about the input, then one line per prediction:
///
///     otters.jpg  3840x2160 -> 224x224  197 tokens  13.4 ms  cpu float32 softmax
///       1  93.12 %  otter  (n02444819)
///       2   3.40 %  mink   (n02442845)
///
/// Of a picture in several views each prediction says where its box begins, left,top, and its size,
/// height x width: "at 448,336 224x224".
std::string to_text(const ClassifyRecord& record, LabelType label_type, bool color);

}  // namespace hydrascope::app
