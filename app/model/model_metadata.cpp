#include "app/model/model_metadata.h"

#include "app/build_info.h"
#include "kernels/input_file.h"
#include "model/checkpoint/formats/sha256.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

namespace hydrascope::app {
namespace {

/// The lines of a label file as metadata.
std::string label_names(const image::Labels& labels) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const image::Label& label = labels.at(static_cast<std::int64_t>(i));
    const bool is_id_alone = label.id.empty() || label.id == label.names;
    lines.push_back(is_id_alone ? label.names : label.id + " " + label.names);
  }
  return checkpoint::to_label_names(lines);
}

std::string license_of(const checkpoint::Checkpoint& weights) {
  std::string license = weights.is_own() ? weights.metadata("license") : "";
  if (license.empty()) license = weights.hub().license;
  return license.empty() ? weights.metadata("license") : license;
}

}  // namespace

checkpoint::Metadata describe_descendant(const ModelSource& source, const std::string& command,
                                         const ResolvedTransform& transform,
                                         const ResolvedLabels& labels) {
  checkpoint::Metadata metadata;
  metadata["created_by"] = "hydrascope " + std::string(kVersion) + " " + command;
  metadata["transform"] = checkpoint::to_timm_transform(transform.config, source.config.in_chans);
  if (!source.random_weights) {
    metadata["parent_sha256"] = checkpoint::sha256_of_file(source.weights.file());
    if (const std::string license = license_of(source.weights); !license.empty())
      metadata["license"] = license;
  }
  if (labels.origin == LabelOrigin::bundled) metadata["labels"] = labels.bundled;
  if (labels.origin == LabelOrigin::names)
    metadata[std::string(checkpoint::kLabelNamesKey)] = label_names(labels.labels);
  return metadata;
}

std::map<std::string, std::string> computed_options(const model::VitConfig& config) {
  std::map<std::string, std::string> options = model::attention_options(config.attention);
  options.merge(model::position_option_values(config.rel_pos));
  if (const std::string rules = model::to_text(config.rel_pos); rules != model::kNoRule)
    options["rel_pos"] = rules;
  if (config.pos_embed != model::PosEmbed::learned) options["pos_embed"] = name(config.pos_embed);
  if (config.pos_interp != model::PosInterp::timm) options["pos_interp"] = name(config.pos_interp);
  if (config.overview) options["overview"] = "on";
  return options;
}

std::optional<double> top1_of_card(const ModelSource& source, const image::Size& size) {
  const model::VitConfig& config = source.config;
  if (source.random_weights || size.height != source.trained.img_height ||
      size.width != source.trained.img_width ||
      model::with_all_options(config.attention, config.training_grid()) != source.trained.attention)
    return {};
  std::filesystem::path card = source.weights.file();
  InputFile file(card.replace_extension(".md"));
  std::ptrdiff_t column = -1;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) {
      const std::size_t begin = std::min(cell.find_first_not_of(' '), cell.size());
      cells.push_back(cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
    }
    const bool is_rule = line.starts_with("|--") || line.starts_with("| --");
    if (column >= 0 && !is_rule && column < std::ssize(cells)) {
      double percent = 0;
      const std::string& cell = cells[static_cast<std::size_t>(column)];
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), percent);
      if (error == std::errc() && end == cell.data() + cell.size()) return percent;
      return {};
    }
    if (const auto found = std::ranges::find(cells, "top-1"); found != cells.end())
      column = found - cells.begin();
  }
  return {};
}

}  // namespace hydrascope::app
