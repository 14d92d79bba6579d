"""AWS::Glue::*"""

from __future__ import annotations

from lab.aws.account import ACCOUNT_ID
from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    """Write names in lower case, as Glue keeps them.

    Raises ResourceFailure for every catalog but the account's own, the only one in the lab.
    """
    catalog = str(properties["CatalogId"])
    if catalog != ACCOUNT_ID:
        raise ResourceFailure(f"User is not authorized to use the catalog {catalog}")
    return {
        key: {**value, "Name": value["Name"].lower()} if key.endswith("Input") else value
        for key, value in properties.items()
    }


RESOURCES = (
    ApiResource(
        type="AWS::Glue::Database",
        properties=names("CatalogId DatabaseInput"),
        also_replacing=names("CatalogId DatabaseInput/Name"),
        prepare=_prepare,
        creation=Call("CreateDatabase"),
        id="{DatabaseInput[Name]}",
        change=Call("UpdateDatabase", Name="{id}"),
        deletion=Call("DeleteDatabase", Name="{id}"),
    ),
    ApiResource(
        type="AWS::Glue::Table",
        properties=names("CatalogId DatabaseName TableInput"),
        prepare=_prepare,
        creation=Call("CreateTable"),
        id="{TableInput[Name]}",
        change=Call("UpdateTable"),
        deletion=Call("DeleteTable", DatabaseName="{DatabaseName}", Name="{id}"),
    ),
)
