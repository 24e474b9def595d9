#include "app/pipeline/pipeline_timing.h"

#include <sstream>

namespace hydrascope::app {

PipelineTiming& PipelineTiming::operator+=(const PipelineTiming& other) {
  images += other.images;
  for (double PipelineTiming::*member :
       {&PipelineTiming::seconds, &PipelineTiming::decode_core_seconds,
        &PipelineTiming::transform_core_seconds, &PipelineTiming::model_seconds,
        &PipelineTiming::wait_seconds})
    this->*member += other.*member;
  return *this;
}

std::string PipelineTiming::describe(int threads, int workers) const {
  std::ostringstream text;
  text.precision(6);
  text << "timing: images=" << images << " seconds=" << seconds
       << " decode_core_seconds=" << decode_core_seconds
       << " transform_core_seconds=" << transform_core_seconds << " model_seconds=" << model_seconds
       << " wait_seconds=" << wait_seconds << " threads=" << threads << " workers=" << workers;
  return text.str();
}

}  // namespace hydrascope::app
