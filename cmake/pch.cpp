// Holds the precompiled LibTorch header that all targets share.
