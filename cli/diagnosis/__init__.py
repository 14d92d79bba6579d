"""What `rackrate doctor` looks at: each check says what it found and what to do about it."""
