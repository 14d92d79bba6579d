"""Print to a terminal, or as Markdown or JUnit XML. Nothing here asks AWS."""
