#include "model/checkpoint/hub/transform_hints.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/json_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

namespace hydrascope::checkpoint {
namespace {

using image::CropMode;
using image::Interpolation;
using image::Size;

constexpr std::int64_t kMaxEdge = 1 << 16;
/// The `fit` of our own files whose parent's processor made sizes that patches do not divide.
constexpr std::string_view kCorner = "corner";

std::array<double, 3> three(const std::vector<double>& values) {
  return {values[0], values[1], values[2]};
}

/// Three numbers, for a picture's channels. A list for another number of `channels` gives its mean,
/// as in timm; a list of one number holds for all, and `one_for_all` also allows the bare number.
std::optional<std::vector<double>> numbers_of_channels(const JsonFields& fields, const char* key,
                                                       std::int64_t channels,
                                                       bool one_for_all = false) {
  const nlohmann::json* value = fields.find(key);
  const auto size = static_cast<std::int64_t>(value != nullptr ? value->size() : 0);
  const bool is_other =
      value != nullptr && value->is_array() && (size == channels || (size == 1 && !one_for_all));
  const auto count = static_cast<std::size_t>(is_other ? size : 3);
  std::optional<std::vector<double>> numbers = fields.numbers(key, count, one_for_all);
  if (numbers && count != 3) {
    const double sum = std::accumulate(numbers->begin(), numbers->end(), 0.0);
    numbers->assign(3, sum / static_cast<double>(count));
  }
  return numbers;
}

void check_std(const JsonFields& fields, const char* key, const std::vector<double>& values) {
  if (std::ranges::any_of(values, [](double value) { return !(value > 0); }))
    fields.refuse(key, "numbers above 0");
}

/// A word of timm's; errors of `parse` name the file.
template <class Parse>
auto parse_word(const JsonFields& fields, const char* key, const std::string& word,
                const Parse& parse) {
  try {
    return parse(word);
  } catch (const Error& error) {
    fields.fail(key, error.what());
  }
}

/// `size` and `crop_size`: a number, {"height", "width"}, {"shortest_edge"}.
struct Edges {
  Size size;
  bool shortest = false;
};

std::optional<Edges> read_edges(const JsonFields& fields, const char* key) {
  const nlohmann::json* value = fields.find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    const std::int64_t edge = *fields.integer(key, 1, kMaxEdge);
    return Edges{{edge, edge}};
  }
  const JsonFields inside = *fields.object(key);
  if (const auto edge = inside.integer("shortest_edge", 1, kMaxEdge))
    return Edges{{*edge, *edge}, true};
  const auto height = inside.integer("height", 1, kMaxEdge);
  const auto width = inside.integer("width", 1, kMaxEdge);
  if (!height || !width) fields.refuse(key, "a number, {height, width} or {shortest_edge}");
  return Edges{{*height, *width}};
}

/// The crop_pct with which `floor(crop / crop_pct)` is `size`, for both edges.
std::optional<double> crop_pct_of(Size crop, Size size) {
  const auto exact = [](std::int64_t cropped, std::int64_t whole) {
    const auto edge = static_cast<double>(cropped);
    double pct = edge / static_cast<double>(whole);
    // The quotient may be rounded up, and dividing by it then falls just short of `whole`.
    while (std::floor(edge / pct) < static_cast<double>(whole)) pct = std::nextafter(pct, 0.0);
    return pct;
  };
  const double pct = std::min(exact(crop.height, size.height), exact(crop.width, size.width));
  const auto gives = [&](std::int64_t cropped, std::int64_t whole) {
    return std::floor(static_cast<double>(cropped) / pct) == static_cast<double>(whole);
  };
  if (!gives(crop.height, size.height) || !gives(crop.width, size.width)) return std::nullopt;
  return pct;
}

using Triple = std::array<double, 3>;
constexpr Triple kHalves{0.5, 0.5, 0.5};
constexpr Triple kClipMean{0.48145466, 0.4578275, 0.40821073};
constexpr Triple kClipStd{0.26862954, 0.26130258, 0.27577711};
constexpr Triple kImageNetMean{0.485, 0.456, 0.406};
constexpr Triple kImageNetStd{0.229, 0.224, 0.225};

/// The values of an image processor's class in transformers 4.57 and 5.24, which differ for BEiT.
struct ProcessorFacts {
  Processor processor;
  std::string_view name;      ///< before "ImageProcessor" or "FeatureExtractor"
  bool crops = false;         ///< `do_center_crop`
  bool keeps_aspect = false;  ///< a number as `size` is the shorter edge
  int resample = 2;           ///< Pillow's number
  Triple mean = kHalves;
  Triple std = kHalves;
};
constexpr std::array kProcessors{
    ProcessorFacts{Processor::vit, "ViT"},
    ProcessorFacts{Processor::deit, "DeiT", true, false, 3},
    ProcessorFacts{Processor::beit, "Beit", false, false, 3},
    ProcessorFacts{Processor::bit, "Bit", true, true, 3, kClipMean, kClipStd},
    ProcessorFacts{Processor::clip, "CLIP", true, true, 3, kClipMean, kClipStd},
    ProcessorFacts{Processor::siglip, "Siglip", false, false, 3},
    ProcessorFacts{Processor::dinov3, "DINOv3ViT", false, false, 2, kImageNetMean, kImageNetStd},
};

const ProcessorFacts& facts_of(Processor processor) {
  return *std::ranges::find(kProcessors, processor, &ProcessorFacts::processor);
}

/// The image processor that the file names, else the model's usual one.
const ProcessorFacts& named_processor(const JsonFields& fields, Processor otherwise) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    const auto type = fields.text(key);
    if (!type) continue;
    for (const ProcessorFacts& facts : kProcessors) {
      for (const std::string_view end :
           {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"})
        if (*type == std::string(facts.name) + std::string(end)) return facts;
    }
    throw Error(ErrorCode::unsupported_format,
                std::string(key) + " '" + type->substr(0, 60) + "' is not known", fields.subject(),
                "options say the transform: `img_size`, `crop_pct`, `mean`, `std`, and config.json "
                "without preprocessor_config.json beside it gives the model's defaults");
  }
  return facts_of(otherwise);
}

/// Keys that are read, and keys that change nothing for a picture in colour and its label.
constexpr std::string_view kProcessorKeys[] = {
    "size", "crop_size", "resample", "do_resize", "do_center_crop", "do_rescale", "rescale_factor",
    "do_normalize", "image_mean", "image_std", "image_processor_type", "feature_extractor_type",
    // Pictures are RGB here; these three are about other programs' arrays and devices.
    "do_convert_rgb", "input_data_format", "data_format", "device", "return_tensors",
    "disable_grouping", "processor_class", "default_to_square",
    // Labels of segmentations.
    "do_reduce_labels", "reduce_labels", "use_square_size",
    // Documentation of keys in files of transformers 4.4x.
    "_valid_processor_keys", "auto_map"};
/// Keys that are off.
constexpr std::string_view kOffKeys[] = {"do_pad",       "do_flip_channel_order", "do_rand_crop",
                                         "do_thumbnail", "do_align_long_axis",    "do_split_image",
                                         "offset",       "do_color_quantize"};

void refuse_unknown_keys(const JsonFields& fields) {
  const auto among = [](std::span<const std::string_view> words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  for (const auto& [key, value] : fields.members().items()) {
    if (value.is_null() || among(kProcessorKeys, key) || (value == false && among(kOffKeys, key)))
      continue;
    throw Error(ErrorCode::unsupported_format,
                key.substr(0, 60) +
                    " may change the pictures in a way that this program does not "
                    "know",
                fields.subject());
  }
}

std::string size_text(Size size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

/// Resize and crop of a preprocessor.
void read_geometry(const JsonFields& fields, const std::string& origin,
                   const ProcessorDefaults& defaults, const ProcessorFacts& facts,
                   TransformHints& hints) {
  const auto [height, width] = defaults.img_size;
  const bool resizes = fields.flag("do_resize").value_or(true);
  const auto said_crops = fields.flag("do_center_crop");
  if (facts.processor == Processor::beit && resizes && !said_crops && !fields.members().empty())
    fields.fail("do_center_crop",
                "is absent, and transformers 4 crops BEiT's pictures, 5 does not");
  const bool crops = said_crops.value_or(facts.crops);
  const auto size = read_edges(fields, "size");
  const auto crop = read_edges(fields, "crop_size");
  if (!resizes) {
    if (fields.flag("do_center_crop").value_or(false))
      fields.fail("do_resize", "false with do_center_crop true: a crop needs a resize here");
    hints.values.views = image::Views::native;
    hints.origins["size"] = origin;
    return;
  }
  if (crop && crop->shortest) fields.refuse("crop_size", "a number or {height, width}");
  const nlohmann::json* said_size = fields.find("size");
  const bool is_number = said_size != nullptr && said_size->is_number();
  const bool shortest =
      size ? size->shortest || (is_number && facts.keeps_aspect) : facts.keeps_aspect;
  if (shortest && !crops)
    fields.fail("size", "shortest_edge gives no fixed size without do_center_crop");
  const std::string of_size = size ? origin : defaults.origin;
  const std::string of_crop = crop ? origin : defaults.origin;

  // DeiTImageProcessor resizes to 8/7 of the crop: 256 for 224.
  const Size cropped = crop ? crop->size : defaults.img_size;
  const bool is_larger = crops && !facts.keeps_aspect;
  const Size resized = size        ? size->size
                       : is_larger ? Size{height * 8 / 7, width * 8 / 7}
                                   : defaults.img_size;
  hints.values.img_size = crops ? cropped : resized;
  hints.origins["img_size"] = crops ? of_crop : of_size;
  hints.values.crop_mode = shortest ? CropMode::center_floor : CropMode::squash;
  hints.origins["crop_mode"] = of_size;
  hints.values.crop_pct = 1;
  hints.origins["crop_pct"] = of_size;
  if (!crops) return;
  if (cropped.height > resized.height || cropped.width > resized.width) {
    fields.fail("crop_size", size_text(cropped) + " is larger than size " + size_text(resized));
  }
  if (!shortest &&
      ((resized.height - cropped.height) % 4 == 3 || (resized.width - cropped.width) % 4 == 3)) {
    fields.fail("crop_size", size_text(cropped) + " and size " + size_text(resized) +
                                 ": a crop half a pixel off the middle is not computed");
  }
  const auto pct = crop_pct_of(cropped, resized);
  if (!pct) {
    fields.fail("crop_size", size_text(cropped) + " and size " + size_text(resized) +
                                 ": the two must have one aspect ratio");
  }
  hints.values.crop_pct = *pct;
}

/// Scale and normalisation: (255 * factor * x - mean) / std for x in [0, 1].
void read_normalisation(const JsonFields& fields, const std::string& origin,
                        const ProcessorDefaults& defaults, const ProcessorFacts& facts,
                        TransformHints& hints) {
  const bool normalises = fields.flag("do_normalize").value_or(true);
  const bool rescales = fields.flag("do_rescale").value_or(true);
  const auto given_factor = fields.number("rescale_factor");
  const auto mean = numbers_of_channels(fields, "image_mean", defaults.channels, true);
  const auto deviation = numbers_of_channels(fields, "image_std", defaults.channels, true);
  if (deviation) check_std(fields, "image_std", *deviation);
  if (given_factor && !(*given_factor > 0)) fields.refuse("rescale_factor", "a number above 0");
  hints.origins["mean"] = mean || !normalises ? origin : defaults.origin;
  hints.origins["std"] = deviation || !normalises ? origin : defaults.origin;
  hints.values.mean = {0, 0, 0};
  hints.values.std = {1, 1, 1};
  if (normalises) {
    hints.values.mean = mean ? three(*mean) : facts.mean;
    hints.values.std = deviation ? three(*deviation) : facts.std;
  }

  constexpr double kUsual = 1.0 / 255;
  const double factor = rescales ? given_factor.value_or(kUsual) : 1.0;
  // 0.00392156862745098 is 1/255 as JSON has it.
  if (std::abs(factor / kUsual - 1) < 1e-6) return;
  for (double& value : hints.values.mean) value /= 255 * factor;
  for (double& value : hints.values.std) value /= 255 * factor;
}

void read_resample(const JsonFields& fields, const std::string& origin,
                   const ProcessorDefaults& defaults, const ProcessorFacts& facts,
                   TransformHints& hints) {
  const auto resample = fields.integer("resample", 0, 5);
  hints.origins["interpolation"] = resample ? origin : defaults.origin;
  // Numbers of Pillow's Resampling.
  switch (resample.value_or(facts.resample)) {
    case 0: hints.values.interpolation = Interpolation::nearest; return;
    case 2: hints.values.interpolation = Interpolation::bilinear; return;
    case 3: hints.values.interpolation = Interpolation::bicubic; return;
    default: fields.refuse("resample", "0 (nearest), 2 (bilinear) or 3 (bicubic)");
  }
}

}  // namespace

void TransformHints::apply_to(image::TransformConfig& config,
                              std::map<std::string, std::string>& origins_of_config) const {
  for (const auto& [field, origin] : origins) {
    if (field == "img_size") config.img_size = values.img_size;
    if (field == "crop_pct") config.crop_pct = values.crop_pct;
    if (field == "crop_mode") config.crop_mode = values.crop_mode;
    if (field == "interpolation") config.interpolation = values.interpolation;
    if (field == "mean") config.mean = values.mean;
    if (field == "std") config.std = values.std;
    if (field == "size") config.views = values.views;
    if (field == "fit") config.fit = values.fit;
    origins_of_config[field] = origin;
  }
}

TransformHints read_timm_transform(const JsonFields& fields, const std::string& origin) {
  TransformHints hints;
  image::TransformConfig& values = hints.values;
  std::int64_t channels = 3;
  if (const auto size = fields.integers("input_size", 3, 1, kMaxEdge)) {
    channels = size->front();
    values.img_size = {(*size)[1], (*size)[2]};
    hints.origins["img_size"] = origin;
  }
  if (const auto pct = fields.number("crop_pct")) {
    if (!(*pct > 0 && *pct <= 1)) fields.refuse("crop_pct", "a number in (0, 1]");
    values.crop_pct = *pct;
    hints.origins["crop_pct"] = origin;
  }
  if (const auto word = fields.text("crop_mode")) {
    values.crop_mode = parse_word(fields, "crop_mode", *word, image::parse_crop_mode);
    hints.origins["crop_mode"] = origin;
  }
  if (fields.contains("fit")) {  // timm has no such key
    if (fields.text("fit") != kCorner) fields.refuse("fit", std::string(kCorner));
    values.fit = image::Fit::corner;
    hints.origins["fit"] = origin;
  }
  if (const auto word = fields.text("interpolation")) {
    values.interpolation = parse_word(fields, "interpolation", *word, image::parse_interpolation);
    hints.origins["interpolation"] = origin;
  }
  if (const auto mean = numbers_of_channels(fields, "mean", channels)) {
    values.mean = three(*mean);
    hints.origins["mean"] = origin;
  }
  if (const auto deviation = numbers_of_channels(fields, "std", channels)) {
    check_std(fields, "std", *deviation);
    values.std = three(*deviation);
    hints.origins["std"] = origin;
  }
  return hints;
}

TransformHints parse_timm_transform(std::string_view json, const std::string& origin,
                                    const std::string& subject) {
  const nlohmann::json object = parse_json_object(json, subject);
  return read_timm_transform(JsonFields(object, subject), origin);
}

std::string to_timm_transform(const image::TransformConfig& config, std::int64_t in_chans) {
  const auto of_channels = [&](const std::array<double, 3>& values) {
    return std::vector<double>(values.begin(),
                               values.begin() + std::min<std::int64_t>(in_chans, 3));
  };
  nlohmann::ordered_json json{
      {"input_size", {in_chans, config.img_size.height, config.img_size.width}},
      {"interpolation", name(config.interpolation)},
      {"crop_pct", config.crop_pct},
      {"crop_mode", name(config.crop_mode)},
      {"mean", of_channels(config.mean)},
      {"std", of_channels(config.std)}};
  if (config.fit == image::Fit::corner) json["fit"] = kCorner;
  return json.dump();
}

TransformHints read_preprocessor(const JsonFields& fields, const std::string& origin,
                                 const ProcessorDefaults& defaults) {
  const ProcessorFacts& facts = named_processor(fields, defaults.processor);
  refuse_unknown_keys(fields);
  TransformHints hints;
  read_geometry(fields, origin, defaults, facts, hints);
  read_normalisation(fields, origin, defaults, facts, hints);
  read_resample(fields, origin, defaults, facts, hints);
  if (facts.processor == Processor::dinov3)
    hints.difference =
        "DINOv3's processor resizes numbers, this program bytes: pictures differ by up to half a "
        "grey level";
  return hints;
}

}  // namespace hydrascope::checkpoint
