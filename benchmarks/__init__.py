"""What the gateway costs, as ratios to peers of the same run: absolute numbers move with the machine. `make bench`."""
