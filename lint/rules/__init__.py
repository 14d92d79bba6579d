"""The classes of all rules, which the modules of this package have."""

from __future__ import annotations

import importlib
import pkgutil

from lint.rule import Rule

#: Every rule by the name of its class. A class without an id is a base of others.
ALL: dict[str, type[Rule]] = {
    name: member
    for module in pkgutil.iter_modules(__path__)
    for name, member in vars(importlib.import_module(f"{__name__}.{module.name}")).items()
    if isinstance(member, type) and issubclass(member, Rule) and member.id
}
