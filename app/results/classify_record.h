// The record of a picture: schema 1 of `classify`.
#pragma once

#include "app/results/record.h"
#include "app/results/record_stream.h"

#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

struct ClassifyRecord : InputRecord {  ///< its seconds: its batch's / batch size, of all its views
  std::int64_t tokens = 0;             ///< of a view
  std::vector<Prediction> top;
  std::string kernels = {};  ///< "fused+modules", "modules", "reference"; "" where all are fused
};

/// Schema 1 of the command line's contract. Probabilities have six significant digits, logits four
/// decimals, seconds six.
OrderedJson to_json(const ClassifyRecord& record);

/// Of csv and tsv: one row a prediction (`kClassifyRows`); a failed input is one row whose numbers
/// are empty.
std::span<const RecordColumn> classify_columns();
inline constexpr const char* kClassifyRows = "top";

/// A line about the input, then one line per prediction:
///
///     otters.jpg  3840x2160 -> 224x224  197 tokens  13.4 ms  cpu float32 softmax
///       1  93.12 %  otter  (n02444819)
///       2   3.40 %  mink   (n02442845)
///
/// Of a picture in several views each prediction says where its box begins, left,top, and its size,
/// height x width: "at 448,336 224x224". `label_type`: what the label column shows.
std::string to_text(const ClassifyRecord& record, LabelType label_type, bool color);

}  // namespace hydrascope::app
