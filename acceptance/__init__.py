"""One script that judges the stack on AWS and in the lab alike, and records what AWS answers.

It knows nothing of the lab: `AWS_ENDPOINT_URL` decides who answers.
"""
