"""AWS::Glue::*"""

from __future__ import annotations

from lab.aws.account import ACCOUNT_ID, arn
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


def _check_catalog(context: ResourceContext, properties: Properties) -> None:
    """Refuse every catalog but the account's own, which is the only one in the lab."""
    if str(properties.get("CatalogId")) != ACCOUNT_ID:
        raise ResourceFailure(
            f"User is not authorized to use the catalog {properties.get('CatalogId')}"
        )


class GlueDatabase(ResourceType):
    """A database in the account's data catalog."""

    type = "AWS::Glue::Database"
    properties = frozenset({"CatalogId", "DatabaseInput"})
    also_replacing = ("CatalogId", "DatabaseInput/Name")

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        _check_catalog(context, properties)
        given = properties["DatabaseInput"]
        # Glue keeps names in lower case. A name that CloudFormation makes up does not suit Athena.
        name = str(given.get("Name") or context.physical_name(255)).lower()
        context.call(
            "glue",
            "CreateDatabase",
            {
                "DatabaseInput": {**given, "Name": name},
                "Tags": context.tags(),
            },
        )
        return Created(name)

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        name = str(context.state.physical_id)
        request = {"Name": name, "DatabaseInput": {**new["DatabaseInput"], "Name": name}}
        context.call("glue", "UpdateDatabase", request)

    def delete(self, context: ResourceContext) -> None:
        name, glue = str(context.state.physical_id), context.client("glue")
        # moto keeps the tags of a database that is gone.
        tags = list(context.tags())
        glue.untag_resource(ResourceArn=arn("glue", f"database/{name}"), TagsToRemove=tags)
        glue.delete_database(Name=name)


class GlueTable(ResourceType):
    """A table of a database: where its files are, and which columns they have."""

    type = "AWS::Glue::Table"
    properties = frozenset({"CatalogId", "DatabaseName", "TableInput"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        _check_catalog(context, properties)
        given = properties["TableInput"]
        name = str(given.get("Name") or context.physical_name(255)).lower()
        request = {
            "DatabaseName": properties["DatabaseName"],
            "TableInput": {**given, "Name": name},
        }
        context.call("glue", "CreateTable", request)
        return Created(name)

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        name = str(context.state.physical_id)
        request = {
            "DatabaseName": new["DatabaseName"],
            "TableInput": {**new["TableInput"], "Name": name},
        }
        context.call("glue", "UpdateTable", request)

    def delete(self, context: ResourceContext) -> None:
        context.client("glue").delete_table(
            DatabaseName=context.state.properties["DatabaseName"], Name=context.state.physical_id
        )
