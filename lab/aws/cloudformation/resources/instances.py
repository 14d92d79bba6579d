"""AWS::EC2::Instance: an instance of a launch template that is no node, and runs its user data."""

from __future__ import annotations

import base64
from dataclasses import replace

from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType
from lab.aws.cloudformation.resources.ec2 import TAGGING
from lab.aws.eks.clusters import Clusters
from lab.aws.eks.infrastructure import Infrastructure, Instance, KubernetesCluster
from lab.aws.eks.instances import launch_instances, node_spec
from lab.aws.eks.releases import Releases
from lab.aws.eks.user_data import KubeletSettings


class PlainInstance(ResourceType):
    """An instance in the VPC of a cluster, of EKS's newest image of Amazon Linux 2023.

    Any change makes another one.
    """

    type = "AWS::EC2::Instance"
    properties = ("LaunchTemplate", "Tags")
    tagging = TAGGING

    def __init__(
        self, clusters: Clusters, infrastructure: Infrastructure, releases: Releases
    ) -> None:
        self._clusters, self._infrastructure, self._releases = clusters, infrastructure, releases
        self._running: dict[str, tuple[KubernetesCluster, Instance]] = {}

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        ec2, reference = context.client("ec2"), properties["LaunchTemplate"]
        (version,) = ec2.describe_launch_template_versions(
            LaunchTemplateId=reference["LaunchTemplateId"], Versions=[reference["Version"]]
        )["LaunchTemplateVersions"]
        template = version["LaunchTemplateData"]
        subnet = template["NetworkInterfaces"][0]["SubnetId"]
        vpc = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
        plane = next(
            cluster.control_plane
            for cluster in self._clusters.all()
            if cluster.description["resourcesVpcConfig"]["vpcId"] == vpc and cluster.control_plane
        )
        # resolve:ssm:/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/... (EKS
        # user guide, "Retrieve recommended Amazon Linux AMI IDs")
        kubernetes, _, architecture = template["ImageId"].split("/")[5:8]
        ami_type = f"AL2023_{architecture.replace('arm64', 'ARM_64')}_STANDARD"
        tags = {"ResourceType": "instance", **TAGGING.of(context.tags(properties.get("Tags")))}
        (instance,) = launch_instances(
            context.clients,
            self._infrastructure,
            description={"capacityType": "ON_DEMAND", "subnets": [subnet]},
            template={**template, "TagSpecifications": [tags]},
            image_id=list(self._releases.images(kubernetes, ami_type).values())[-1],
            cluster_security_group="",
            count=1,
            cni={"MAX_ENI": "1"},
            started=lambda instance: context.begin(instance.instance_id),
        )
        self._running[instance.instance_id] = plane, instance
        script = base64.b64decode(template["UserData"]).decode()
        spec = replace(node_spec(instance, {}, [], KubeletSettings()), user_data=script)
        plane.launch_nodes([spec])
        return Created(instance.instance_id, {"PrivateIp": str(instance.block[1])})

    def delete(self, context: ResourceContext) -> None:
        id_ = str(context.state.physical_id)
        plane, instance = self._running.pop(id_)
        plane.terminate_nodes([instance.name])
        context.client("ec2").terminate_instances(InstanceIds=[id_])
        self._infrastructure.release_block(instance.block)
