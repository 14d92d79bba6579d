"""What a fresh machine lacks: programs and images, made once into the user's cache."""
