"""Charts as inline SVG: values in, markup out. matplotlib draws them, the page sets the colors."""
