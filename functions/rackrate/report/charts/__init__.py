"""Charts as inline SVG: values in, markup out. Drawn by matplotlib, coloured by the page."""
