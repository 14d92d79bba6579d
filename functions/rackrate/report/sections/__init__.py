"""The page's sections: values in, markup out."""
