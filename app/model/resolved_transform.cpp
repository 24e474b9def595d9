#include "app/model/resolved_transform.h"

#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/config/architectures.h"

#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace hydrascope::app {
namespace {

/// The origin of values that nothing says.
constexpr std::string_view kNoArchitecture = "the defaults";

void check_transform(const image::TransformConfig& config) {
  if (!(config.crop_pct > 0 && config.crop_pct <= 1)) {
    throw Error(ErrorCode::invalid_argument,
                "expected a number in (0, 1], found " + shortest_number(config.crop_pct),
                "`crop_pct`");
  }
  for (const double value : config.std) {
    if (!(value > 0))
      throw Error(ErrorCode::invalid_argument,
                  "expected numbers above 0, found " + shortest_number(value), "`std`");
  }
}

/// A model of a size that its patches do not divide has a table of whole patches, and timm and Hugging Face leave out
/// the pixels at the right and bottom; Hugging Face does so at any size that its processor makes.
bool keeps_corner(const image::TransformConfig& transform, const ModelSource& source) {
  const model::VitConfig& config = source.config;
  const auto whole = [&](std::int64_t edge) { return edge - edge % config.patch_size; };
  const image::Size& size = transform.img_size;
  const image::Size own{config.img_height, config.img_width};
  if (transform.views.keep_size) return false;
  const image::Size cut{whole(size.height), whole(size.width)};
  const bool is_hugging_faces =
      !source.random_weights && !source.weights.is_own() &&
      source.weights.hub().kind == checkpoint::HubConfig::Kind::hugging_face;
  return cut != size && (cut == own || is_hugging_faces);
}

}  // namespace

void ResolvedTransform::say_assumed(const Console& console, const std::string& of) const {
  std::string fields;
  std::string flags;
  for (const std::string field : {"mean", "std", "crop_pct", "interpolation"}) {
    const auto origin = origins.find(field);
    if (origin == origins.end() || origin->second != kNoArchitecture) continue;
    fields += (fields.empty() ? "" : ", ") + field;
    flags += (flags.empty() ? "`" : ", `") + field + "`";
  }
  if (fields.empty()) return;
  console.note("note: " + of + "nothing says how its pictures are prepared (" + fields +
               "): " + image::describe(config) + " is assumed; " + flags + " say otherwise");
}

std::string ResolvedTransform::describe() const {
  // Values of one origin are named together: "[img_size, mean from metadata of x; crop_pct from
  // --set crop-pct]".
  std::map<std::string, std::string> fields_of;
  for (const auto& [field, origin] : origins) {
    std::string& fields = fields_of[origin];
    fields += (fields.empty() ? "" : ", ") + field;
  }
  std::string from;
  for (const auto& [origin, fields] : fields_of) {
    if (!from.empty()) from += "; ";
    from += fields_of.size() == 1 ? "from " + origin : fields + " from " + origin;
  }
  return spelled("transform: " + image::describe(config) + " [" + printable(from) + "]");
}

ResolvedTransform resolve_transform(const TransformRequest& request, const ModelSource& source) {
  ResolvedTransform result;
  image::TransformConfig& config = result.config;
  const auto architecture = model::find_architecture(source.config.arch);
  const std::string fallback =
      architecture ? "the defaults of " + source.config.arch : std::string(kNoArchitecture);
  for (const char* field : {"img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std"}) {
    result.origins[field] = fallback;
  }
  if (architecture) config = architecture->transform;
  config.img_size = {source.config.img_height, source.config.img_width};
  config.patch_size = source.config.patch_size;
  if (source.config.in_chans == 1) config.in_chans = 1;
  source.weights.hub().transform.apply_to(config, result.origins);
  // The Python package also saves models of timm that are no configuration of this program's.
  const bool is_ours =
      source.weights.is_own() || source.weights.metadata("created_by") == "hydrascope.nn";
  if (const std::string text = source.weights.metadata("transform"); !text.empty() && is_ours) {
    const std::filesystem::path& file = source.weights.file();
    checkpoint::parse_timm_transform(text, "metadata of " + file.filename().string(),
                                     file.string() + ": metadata 'transform'")
        .apply_to(config, result.origins);
    config.views = image::Views::whole;
  }
  if (request.img_size) config.views = image::Views::whole;
  const auto take = [&](const auto& asked, const char* field, auto& value) {
    if (!asked) return;
    value = asked->value;
    result.origins[field] = asked->origin;
  };
  take(request.img_size, "img_size", config.img_size);
  take(request.crop_pct, "crop_pct", config.crop_pct);
  take(request.crop_mode, "crop_mode", config.crop_mode);
  take(request.interpolation, "interpolation", config.interpolation);
  take(request.mean, "mean", config.mean);
  take(request.std, "std", config.std);
  if (request.views) config.views = request.views->value;
  const image::Views& views = config.views;
  take(request.views, views.keep_size ? "size" : "views", config.views);
  if (const auto& size = request.img_size;
      views.have_parts && size && size->value.height != size->value.width)
    throw UsageError("expected one number, the edge of a view",
                     size->origin + " " + size_text(size->value));
  config.fit = request.fit.value_or(keeps_corner(config, source) ? image::Fit::corner : config.fit);
  // As timm does where a model takes another number of channels than the values are for.
  if (config.in_chans == 1) {
    config.mean.fill((config.mean[0] + config.mean[1] + config.mean[2]) / 3);
    config.std.fill((config.std[0] + config.std[1] + config.std[2]) / 3);
  }
  check_transform(config);
  const auto leave_out = [&](std::initializer_list<const char*> unused) {
    for (const char* field : unused) result.origins.erase(field);
  };
  if (views.keep_size)
    leave_out({"img_size", "interpolation"});
  else
    leave_out({"size"});
  if (!views.have_crop) leave_out({"crop_pct", "crop_mode"});
  return result;
}

}  // namespace hydrascope::app
