"""rsqrt methods, one file each. A new file here is found by itself."""
