// The part of NVTX that host code here uses.
#pragma once

extern "C" {
int nvtxRangePushA(const char* name);
int nvtxRangePop();
}
