// Hugging Face's names of models, `hf-hub:org/name@revision`, looked up in the cache that its tools
// keep on this machine. Nothing is downloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hydrascope::app {

/// A repository of models, as a user names it.
struct HubName {
  std::string repository;  ///< "org/name"
  std::string revision;    ///< branch, tag or commit; "" for the default, main
};
/// "hf-hub:org/name[@revision]", "hf_hub:..." as older timm spells it, or the bare "org/name".
/// Nothing for any other word.
std::optional<HubName> parse_hub_name(std::string_view word);

/// Where the cache lies: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first that the environment gives.
std::filesystem::path hub_cache_folder();

/// The folder of that revision's files in the cache, models--org--name/snapshots/COMMIT; nothing
/// where it is not there or holds no weights.
std::optional<std::filesystem::path> find_in_hub_cache(const HubName& name);

/// What `word` names there. Nothing for a word that is no such name, or a bare "org/name" that the
/// cache lacks; throws Error(invalid_argument) with the command that fetches it when the prefix
/// leaves no doubt.
std::optional<std::filesystem::path> hub_folder(std::string_view word);

/// "hf download org/name --revision v2".
std::string download_command(const HubName& name);

}  // namespace hydrascope::app
