"""report.html: the page of a run or of a comparison."""
