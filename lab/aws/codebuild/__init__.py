"""AWS CodeBuild, with builds that build no container."""
