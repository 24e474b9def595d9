// What host code here uses of NVTX.
#pragma once

extern "C" {
int nvtxRangePushA(const char* name);
int nvtxRangePop();
}
