// Which mechanism a layer uses, and the text form of that choice for all layers.
#pragma once

#include "model/attention/token_grid.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// `--set kernels`: which implementation computes the mixing of tokens.
enum class Kernels { automatic, fused, reference };

/// A mechanism by its canonical name and the options that differ from its defaults.
struct AttentionSpec {
  std::string mechanism = "softmax";
  std::map<std::string, std::string> options;
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

/// Applies `spec` (`softmax`, `softmax:0-9,hydra:10-11`, `hydra:last4`, `hydra:first2`,
/// `hydra:every2`, layers from 0, `everyK` counted from the last layer) to `layers`. Layers that it
/// does not name stay as they are; the later of two parts that name a layer wins
/// (`softmax,hydra:last4`). Names are resolved through the registry (aliases welcome). Throws
/// Error(invalid_argument).
void apply_attention_spec(std::string_view spec, std::vector<AttentionSpec>& layers);

/// Applies one `mechanism.key=value`, or `mechanism:layers.key=value` to some of its layers
/// (`longformer:6-11.dilation=2`, `strided:every2.combine=columns`; the layers of
/// `apply_attention_spec`). It is checked against the mechanism's declared options. Throws
/// Error(invalid_argument) if no layer among them uses the mechanism.
void apply_attention_option(std::string_view option, std::vector<AttentionSpec>& layers);

/// Every option of every mechanism in use with its value, defaults filled in: the settings of the
/// layers' computation. {"hydra.scale": "linear"}; differing values of layers are joined by '|'.
std::map<std::string, std::string> attention_options(const std::vector<AttentionSpec>& layers);

/// Throws Error(invalid_argument) when `asked` runs a mechanism of `trained` with another value of
/// an option that describes the checkpoint's own tensors (a seed): the tensors would not change
/// with it.
void check_stored_options(const std::vector<AttentionSpec>& trained,
                          const std::vector<AttentionSpec>& asked);

/// The layers with the defaults filled in, so that a checkpoint does not depend on them. An option
/// of 0, the training grid, becomes that grid's numbers, so that the layer computes the same at
/// another grid.
std::vector<AttentionSpec> with_all_options(std::vector<AttentionSpec> layers,
                                            const TokenGrid& training_grid);

/// The shortest text that `apply_attention_spec` reads back: "softmax", "softmax:0-9,hydra:10-11".
/// It leaves options out.
std::string to_text(const std::vector<AttentionSpec>& layers);

}  // namespace hydrascope::model
