// Holds the precompiled LibTorch headers that all targets share.
