"""The CodeBuild API, on moto's request parsing and response serialization."""

from __future__ import annotations

from moto.core.responses import ActionResult, BaseResponse

from lab.aws.codebuild.builds import CodeBuild


class CodeBuildResponse(BaseResponse):
    """Answers one request."""

    def __init__(self, service: CodeBuild) -> None:
        super().__init__(service_name="codebuild")
        self.automated_parameter_parsing = True
        self._service = service

    def create_project(self) -> ActionResult:
        return ActionResult({"project": self._service.put_project(self._get_params(), new=True)})

    def update_project(self) -> ActionResult:
        return ActionResult({"project": self._service.put_project(self._get_params(), new=False)})

    def delete_project(self) -> ActionResult:
        # As in CodeBuild, deleting a project that does not exist succeeds.
        self._service.projects.pop(self._get_param("name"), None)
        return ActionResult({})

    def list_projects(self) -> ActionResult:
        return ActionResult({"projects": sorted(self._service.projects)})

    def start_build(self) -> ActionResult:
        return ActionResult({"build": self._service.start(self._get_params())})

    def stop_build(self) -> ActionResult:
        return ActionResult({"build": self._service.stop(self._get_param("id"))})

    def batch_get_builds(self) -> ActionResult:
        requested = [identity.rsplit("/", 1)[-1] for identity in self._get_param("ids")]
        builds = self._service.builds
        return ActionResult(
            {
                "builds": [
                    {**builds[identity], "phases": list(builds[identity]["phases"])}
                    for identity in requested
                    if identity in builds
                ],
                "buildsNotFound": [identity for identity in requested if identity not in builds],
            }
        )
