"""What a run leaves for people and for other programs: results.json, trials.csv, report.html."""
