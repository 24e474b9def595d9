// The place of the bundled files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// timm's answers for `doctor --self-test`; the folder of the bundled files is known by it.
inline constexpr std::string_view kSelfTestFile = "self_test.safetensors";

/// HYDRASCOPE_ASSETS, or share/hydrascope of the tree that the program's own file is in. Throws
/// Error(failed) that lists the places when none holds kSelfTestFile.
const std::filesystem::path& assets_folder();

/// Whether a file is a bundled model's, or a copy of it.
bool is_bundled_model(const std::filesystem::path& file);
/// assets/models/NAME.safetensors when there is such a file. The family's name alone, "deit_tiny_patch16_224", is
/// the default model.
std::optional<std::filesystem::path> named_model(std::string_view name);
/// Names of all bundled models, sorted.
std::vector<std::string> bundled_models();
/// The photographs that come along, sorted.
std::vector<std::string> bundled_images();
/// assets/labels/NAME.txt when there is such a file.
std::optional<std::filesystem::path> bundled_labels(std::string_view name);

/// The model without `-m`.
inline constexpr std::string_view kDefaultModel = "deit_tiny_patch16_224.softmax";
/// The same where pictures are seen at their own size or looked at closer: the model made for that.
inline constexpr std::string_view kLargePicturesModel = "deit_tiny_patch16_224.window";

// Hugging Face's names of models, `hf-hub:org/name@revision`, looked up in the cache that its tools
// keep on this machine. Nothing here adds to it.

/// A repository of models, as a user names it.
struct HubName {
  std::string repository;  ///< "org/name"
  std::string revision;    ///< branch, tag or commit; "" for the default, main
};
/// "hf-hub:org/name[@revision]", "hf_hub:..." as older timm spells it, or the bare "org/name".
/// Nothing for any other word.
std::optional<HubName> parse_hub_name(std::string_view word);

/// The folder of the cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first that the environment gives.
/// `~` in the first three is replaced, as Hugging Face's tools do. A relative
/// XDG_CACHE_HOME does not count, as its specification says, and neither does a relative HOME: the
/// home is then the one of the system's list of users.
std::filesystem::path hub_cache_folder();

/// The folder of that revision's files in the cache, models--org--name/snapshots/COMMIT; nothing
/// where it is not there or holds no weights.
std::optional<std::filesystem::path> find_in_hub_cache(const HubName& name);

/// The file that `word` names there. Nothing for a word that is no such name, or a bare "org/name" that the
/// cache lacks; throws Error(invalid_argument) with the command that fetches it when the prefix
/// leaves no doubt.
std::optional<std::filesystem::path> hub_folder(std::string_view word);

/// "hf download org/name --revision v2", the command of Hugging Face's tools.
std::string download_command(const HubName& name);

}  // namespace hydrascope::app
