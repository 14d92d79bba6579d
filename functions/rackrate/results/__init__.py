"""What a run leaves for people and programs: its schema, how it is built, rows and tables."""
