// The first race ends the program, as the first bad access does: what comes after it is noise, and
// tests that expect one look for the end.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }
