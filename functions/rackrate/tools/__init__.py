"""The measuring tools. To add a tool, add a file here.

A tool's module has a class `Test` and a function `parse(text, test) -> Measurement` that raises
`ParseError`. `Test` is a `TestBase` with the tool's parameters, command lines, and the facts that
the rest of rackrate, the image and the documentation need. `rackrate.registry` finds both.
"""
