"""Templates that several tests use."""

NETWORK = """
  Vpc:
    Type: AWS::EC2::VPC
    Properties: {CidrBlock: 10.0.0.0/16, EnableDnsHostnames: true}
  SubnetA:
    Type: AWS::EC2::Subnet
    Properties:
      VpcId: !Ref Vpc
      CidrBlock: 10.0.0.0/20
      AvailabilityZone: us-east-1a
  SubnetB:
    Type: AWS::EC2::Subnet
    Properties:
      VpcId: !Ref Vpc
      CidrBlock: 10.0.16.0/20
      AvailabilityZone: us-east-1b
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: 2012-10-17
        Statement:
          - Effect: Allow
            Action: sts:AssumeRole
            Principal: {Service: [eks.amazonaws.com, ec2.amazonaws.com]}
"""

CLUSTER = """
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      Version: "1.36"
      RoleArn: !GetAtt Role.Arn
      AccessConfig:
        AuthenticationMode: API
        BootstrapClusterCreatorAdminPermissions: false
      ResourcesVpcConfig:
        SubnetIds: [!Ref SubnetA, !Ref SubnetB]
"""


def node_group(name: str, *, placement: str | None, instance_type: str, extra: str = "") -> str:
    """A node group of two nodes, with its launch template and optionally a placement group."""
    group = (
        f"  {name}Group:\n    Type: AWS::EC2::PlacementGroup\n"
        f"    Properties: {{Strategy: {placement}}}\n"
        if placement
        else ""
    )
    template_placement = (
        f"        Placement: {{GroupName: !Ref {name}Group}}\n" if placement else ""
    )
    return f"""{group}  {name}Template:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: {instance_type}
{template_placement}        TagSpecifications:
          - ResourceType: instance
            Tags: [{{Key: placementGroup, Value: "{str(bool(placement)).lower()}"}}]
{extra}  {name}:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: !Ref Cluster
      NodeRole: !GetAtt Role.Arn
      Subnets: [!Ref SubnetA]
      ScalingConfig: {{MinSize: 2, MaxSize: 2, DesiredSize: 2}}
      Labels: {{placementGroup: "{str(bool(placement)).lower()}"}}
      LaunchTemplate:
        Id: !Ref {name}Template
        Version: !GetAtt {name}Template.LatestVersionNumber
"""
