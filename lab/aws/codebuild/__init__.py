"""AWS CodeBuild, whose builds are a stand-in."""
