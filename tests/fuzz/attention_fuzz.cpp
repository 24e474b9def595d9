// Which attention a layer has: --attn, then --attn-opt, --rel-pos, --rel-pos-opt.
#include "model/registry/attention_spec.h"
#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"
#include "tests/fuzz/fuzz.h"

namespace model = hydrascope::model;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

namespace {

// Of the program's mechanisms only with LibTorch: the grammar does not depend on which there are.
const model::MechanismRegistration kAlpha(
    {.name = "fuzz_alpha",
     .aliases = {"a"},
     .options = {model::ChoiceOption<int>("norm", {{"l2", 2}, {"l1", 1}}, "a choice"),
                 model::NumberOption("scale", "1", 0, 10, "a number"),
                 model::IntegerOption("features", 8, 1, 1 << 20, "an integer"),
                 model::of_stored_tensors(model::IntegerOption("seed", 0, 0, 99, "of tensors")),
                 model::SwitchOption("on", false, "a switch")},
     .former_options = {{"form", "plain"}}});
const model::MechanismRegistration kBeta({.name = "b",
                                          .options = {model::ExtentOption("size", "patches")},
                                          .takes_positions = true});
const model::PositionRegistration kTurn(
    {.name = "fuzz_turn",
     .aliases = {"t"},
     .options = {model::NumberOption("base", "100", 1, 1000, "a number"),
                 model::SwitchOption("mixed", false, "a switch")}});

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = hydrascope::fuzz::parts_of(hydrascope::fuzz::as_text(data, size), 4);
  const std::size_t depth = size % 13;
  std::vector<model::AttentionSpec> layers(depth, {"b", {}});
  gives_result([&] { model::apply_attention_spec(parts[0], layers); });
  gives_result([&] { model::apply_attention_option(parts[1], layers); });
  require(layers.size() == depth, "there are as many layers as before");
  if (depth > 0) {
    std::vector<model::AttentionSpec> again(depth);
    model::apply_attention_spec(model::to_text(layers), again);
    for (std::size_t i = 0; i < depth; ++i)
      require(again[i].mechanism == layers[i].mechanism, "what is written is read");
  }
  static_cast<void>(model::attention_options(layers));
  const auto whole = model::with_all_options(layers, {1, 14, 14});
  require(model::with_all_options(whole, {1, 14, 14}) == whole, "what is filled in stays");
  gives_result([&] { model::check_stored_options(whole, layers); });

  std::vector<model::PositionSpec> rules(depth);
  gives_result([&] { model::apply_position_spec(parts[2], rules); });
  gives_result([&] { model::apply_position_option(parts[3], rules); });
  if (depth > 0) {
    std::vector<model::PositionSpec> again(depth);
    model::apply_position_spec(model::to_text(rules), again);
    for (std::size_t i = 0; i < depth; ++i)
      require(again[i].rule == rules[i].rule, "what is written is read");
  }
  static_cast<void>(model::position_option_values(model::with_all_options(rules)));
  return 0;
}
