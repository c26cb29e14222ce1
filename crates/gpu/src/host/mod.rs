//! The host backend: the same kernels, compiled for the CPU.
