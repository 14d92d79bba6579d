"""The results of a run for people and programs: their schema, how they are built, the tables."""
