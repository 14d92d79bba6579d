"""Versions of launch templates that are made of others, and that are deleted, as on EC2."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.launch_templates import LaunchTemplate, LaunchTemplateVersion
from moto.ec2.responses import EC2Response
from moto.ec2.responses.launch_templates import LaunchTemplates

#: An attribute of a launch template: the number of the newest version that it ever had.
_LAST = "rackrate_last_number"
_moto_create = LaunchTemplates.create_launch_template_version
_moto_number = LaunchTemplate.create_version
_moto_find = LaunchTemplate.get_version


def _template(self: EC2Response) -> LaunchTemplate:
    name, backend = self._get_param("LaunchTemplateName"), self.ec2_backend
    template: LaunchTemplate = (
        backend.get_launch_template_by_name(name)
        if name
        else backend.get_launch_template(self._get_param("LaunchTemplateId"))
    )
    return template


def create(self: EC2Response) -> ActionResult:
    """Take what the request does not give from the source version, if it names one."""
    source = self._get_param("SourceVersion")
    result: ActionResult = _moto_create(self)
    if source:
        template = _template(self)
        newest = template.versions[-1]
        newest.data = {**template.get_version(source).data, **newest.data}
    return result


def delete(self: EC2Response) -> ActionResult:
    """Delete versions; EC2 does not delete the default one, and never uses a number again."""
    template = _template(self)
    deleted = [template.get_version(number) for number in self._get_param("Versions", [])]
    if any(map(template.is_default, deleted)):
        raise EC2ClientError(
            "OperationNotPermitted", "The default version of a launch template is not deleted."
        )
    template.versions[:] = [version for version in template.versions if version not in deleted]
    response = [
        {
            "LaunchTemplateId": template.id,
            "LaunchTemplateName": template.name,
            "VersionNumber": version.number,
        }
        for version in deleted
    ]
    return ActionResult({"SuccessfullyDeletedLaunchTemplateVersions": response})


def number(self: LaunchTemplate, data: dict[str, Any], description: str) -> LaunchTemplateVersion:
    version = _moto_number(self, data, description)
    version.number = vars(self).get(_LAST, 0) + 1
    vars(self)[_LAST] = version.number
    return version


def find(self: LaunchTemplate, num: Any) -> LaunchTemplateVersion:
    for version in self.versions:
        if str(version.number) == str(num):
            return version
    if str(num).startswith("$"):
        return _moto_find(self, num)
    raise EC2ClientError(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find the specified version {num} for the launch template with ID {self.id}.",
    )
