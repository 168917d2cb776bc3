"""How x, gamma and the root become y, one file each. A new file here is found by itself."""
