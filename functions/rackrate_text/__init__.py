"""How figures and lists are written, in the functions and in the command line alike. Pure.

Both packages carry it: `sam build` takes it with the other functions, and pyproject.toml puts it
beside the command. It knows nothing of either.
"""
