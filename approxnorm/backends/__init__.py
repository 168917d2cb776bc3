"""Executors of a datapath; each knows the operations and none of the methods."""
