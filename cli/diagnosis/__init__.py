"""The checks of `rackrate doctor`. Each returns what it found and what to do about it."""
