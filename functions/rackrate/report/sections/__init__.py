"""The page's parts, in the order a reader meets them: values in, markup out."""
