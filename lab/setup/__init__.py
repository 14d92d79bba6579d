"""Programs and images that a new machine lacks, made once in the user's cache."""
