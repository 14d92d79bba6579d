"""The page's sections: results in, values for their templates out."""
