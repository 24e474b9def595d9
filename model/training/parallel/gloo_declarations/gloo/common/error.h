// Stands in for a header of Gloo that LibTorch's wheel does not bring; nothing of it is needed
// here.
#pragma once
