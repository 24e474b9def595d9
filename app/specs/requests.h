// The requests of the commands without a folder of their own, beside the shared ones.
#pragma once

#include "app/options/requests.h"

#include <cstdint>
#include <optional>
#include <string>

namespace hydrascope::app {

struct ClassifyRequest : PicturesRequest {
  std::int64_t topk = 5;
  std::string save_logits = {};
  std::string save_input = {};
  std::int64_t video_stride = 0;  ///< 0: a frame a second
  double video_average = 0;       ///< `PipelineOptions::video_average`
  bool resume = false;
  VoteRequest vote = {};
};

struct EmbedRequest : PicturesRequest {
  std::string features = {};
  bool label_folders = false;
  std::string labels_csv = {};
  bool resume = false;  ///< it does so in any case
  bool force = false;   ///< begins anew, whatever is there
};

struct SearchRequest : PicturesRequest {
  std::string store = {};  ///< the first of the words
  std::int64_t top = 5;
};

/// The address and the limits of `serve`, beside its service.
struct ListenRequest {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  double timeout = 60;                            ///< seconds
  std::optional<std::int64_t> most_waiting = {};  ///< without: two batches
};

struct ModelInfoRequest {
  bool verify = false;
};

struct DoctorRequest {
  bool self_test = false;
};

}  // namespace hydrascope::app
