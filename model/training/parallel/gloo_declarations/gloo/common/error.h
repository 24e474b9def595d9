// Stands in for a header of Gloo that LibTorch's wheel lacks. It may be empty.
#pragma once
